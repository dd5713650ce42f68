// A link of an earlier run goes on to the same page of this one: the pages store the prefix of this run.
const go = () => {
  const now = localStorage.getItem("prefix");
  const [, at, rest] = location.pathname.match(/^\/s\/([0-9a-f]+)(\/.*)$/) || [, "", "/"];
  if (now && now !== at && location.pathname !== "/login") {
    location.replace("/s/" + now + rest + location.search + location.hash);
  }
};
go();
addEventListener("storage", go);
