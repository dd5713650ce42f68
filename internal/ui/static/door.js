// A link of an earlier run, or without a prefix, goes on to the same page of this run: the pages store its prefix.
const go = () => {
  const now = localStorage.getItem("prefix");
  const [, at, rest] = location.pathname.match(/^\/s\/([0-9a-f]+)(\/.*)$/) || [, "", location.pathname];
  if (now && now !== at && location.pathname !== "/login") {
    location.replace("/s/" + now + rest + location.search + location.hash);
  }
};
go();
addEventListener("storage", go);
