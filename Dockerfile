# The one program of Bourse, with nothing else in the image: docker build -t REGISTRY/bourse .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /bourse ./cmd/bourse

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /bourse /bourse
USER 65532:65532
ENTRYPOINT ["/bourse"]
