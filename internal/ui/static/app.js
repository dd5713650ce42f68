// Live: the page says by one WebSocket what it shows, and gets itself again when that has changed. What the user is
// doing stays: text, focus, selection, scroll, open details.
const prefix = location.pathname.match(/^\/s\/[0-9a-f]+/)[0];
const policy = self.trustedTypes ? trustedTypes.createPolicy("bourse", { createHTML: (s) => s }) : { createHTML: (s) => s };
let socket, wait = 500, mouse = 0, later = null, held = 0;

const touched = (e) => e === document.activeElement ? e.matches("input, select, textarea")
  : "defaultValue" in e && (e.value !== e.defaultValue || e.checked !== e.defaultChecked)
  || e.tagName === "SELECT" && [...e.options].some((o) => o.selected !== o.defaultSelected);
const keep = (e, name) => name === "open" && e.tagName === "DETAILS";

// An open form stays as the user opened it, with the hidden fields of what was seen: the server refuses it if that has
// changed since. One that loads is not there yet.
const open = (e, to) => e.matches("section.panel") && !e.querySelector(".loading") && e.getAttribute("aria-label") === to.getAttribute("aria-label");

// Rows keep the order in which the page shows them, and new ones come at the end, until another address is shown.
let fixed = false;
const keepOrder = (from, to) => {
  const order = new Map([...from.children].map((e, i) => [e.id, i])), place = (e) => order.get(e.id) ?? order.size;
  const rows = [...to.children].filter((e) => e.id), after = rows.length ? rows.at(-1).nextSibling : null;
  for (const row of rows.sort((a, b) => place(a) - place(b))) to.insertBefore(row, after);
};
const address = (page) => page.querySelector(".theme [name=to]")?.value; // of what it shows

const morph = (from, to) => {
  if (from.isEqualNode(to)) return;
  if (from.nodeType !== 1) { from.nodeValue = to.nodeValue; return; }
  if (touched(from) || open(from, to)) return;
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && !keep(from, name)) from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value && !keep(from, name)) from.setAttribute(name, value);
  if (fixed && from.matches("table, tbody, ul, ol")) keepOrder(from, to);
  let at = from.firstChild;
  for (const child of [...to.childNodes]) {
    const same = (n) => n && n.nodeType === child.nodeType && n.nodeName === child.nodeName && (n.id || "") === (child.id || "");
    let match = at;
    if (child.id && !same(at)) {
      match = [...from.children].find((n) => n.id === child.id && same(n));
      if (match) (from.moveBefore || from.insertBefore).call(from, match, at);
    } else {
      while (match && !same(match)) match = match.nextSibling;
      while (match && at !== match) { const next = at.nextSibling; at.remove(); at = next; } // gone in the new page
    }
    if (!match) { from.insertBefore(document.importNode(child, true), at); continue; }
    at = match.nextSibling;
    morph(match, child);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
};

// A page does not move under a pointer that is down, or on a button that acts: for two and five seconds at most.
const busy = () => Date.now() - mouse < 2000 || document.querySelector("main :is(button, .button):hover") && Date.now() - held < 5000;
const show = (text) => {
  if (!later) held = Date.now();
  later = text;
  if (busy()) { setTimeout(() => { if (later) show(later); }, 250); return; }
  later = null;
  const page = new DOMParser().parseFromString(policy.createHTML(text), "text/html");
  document.title = page.title;
  fixed = address(page) === address(document);
  morph(document.body, page.body);
};
addEventListener("pointerdown", () => { mouse = Date.now(); });
for (const end of ["pointerup", "pointercancel", "dragend", "contextmenu", "blur"]) addEventListener(end, () => { mouse = 0; });

const target = () => document.visibilityState === "hidden" ? "" : location.pathname.slice(prefix.length) + location.search;
const say = () => { if (socket && socket.readyState === 1) socket.send(target()); };
const offline = (is) => document.documentElement.toggleAttribute("data-offline", is);

const connect = () => {
  socket = new WebSocket("ws://" + location.host + prefix + "/live");
  socket.onopen = say;
  socket.onmessage = (m) => {
    wait = 500;
    offline(false);
    localStorage.setItem("prefix", prefix.slice(3));
    show(m.data);
  };
  socket.onclose = (e) => {
    if (e.code === 4403) { location.reload(); return; }
    offline(true);
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, 8000);
  };
};
// A machine that slept has connections that are dead and data that are old, and nothing tells it.
let awake = Date.now();
setInterval(() => {
  const slept = Date.now() - awake > 30000;
  awake = Date.now();
  if (slept && socket) { offline(true); wait = 500; socket.onclose = socket.onmessage = null; socket.close(); connect(); }
}, 5000);

// What answers a form that was refused is no page of its own: it stays as it is. A reload of it, and a way back to it,
// show the page of the form: a browser would ask whether to send the form again.
const still = document.body.hasAttribute("data-still");
if (still) history.replaceState(null, "", document.body.dataset.still); else connect();
addEventListener("visibilitychange", say);

// A form with data-live shows its result while one types.
let typing;
addEventListener("input", (e) => {
  const form = e.target.form;
  if (still || !form || !form.hasAttribute("data-live")) return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, v]) => v !== ""));
    history.replaceState(null, "", form.action.split("?")[0] + (query.size ? "?" + query : ""));
    say();
  }, 300);
});

// A form is sent once, no matter how often its button is pressed.
addEventListener("submit", (e) => {
  if (e.target.method === "post" && e.submitter) setTimeout(() => { e.submitter.disabled = true; });
});

// Where a panel is closed, the cursor goes back to what opened it.
const opener = sessionStorage.getItem("closed");
sessionStorage.removeItem("closed");
if (opener) document.querySelector('main a[href="' + CSS.escape(opener) + '"]')?.focus();

// Keys: / searches, g and a letter opens a page, Esc closes a panel.
let g = 0;
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const editing = e.target.matches("input, select, textarea");
  if (e.key === "Escape") {
    const close = document.querySelector("a[data-close]"), was = e.target.defaultValue;
    if (editing && (!close || was !== undefined && e.target.value !== was)) e.target.blur(); else if (close) close.click();
  } else if (!editing && e.key === "/") {
    const search = document.querySelector("main input[type=search]") || document.querySelector("input[type=search]");
    if (search) { e.preventDefault(); search.focus(); search.select(); }
  } else if (!editing && e.key === "g") {
    g = Date.now();
  } else if (!editing && Date.now() - g < 1500) {
    const link = document.querySelector('nav a[data-key="' + CSS.escape(e.key) + '"]');
    g = 0;
    if (link) link.click();
  }
});
addEventListener("click", (e) => {
  if (e.target.closest("a[data-close]")) sessionStorage.setItem("closed", location.pathname + location.search);
  const copy = e.target.closest("button[data-copy]");
  if (copy) {
    navigator.clipboard.writeText(copy.dataset.copy);
    copy.classList.add("copied");
    setTimeout(() => copy.classList.remove("copied"), 1200);
  }
});
