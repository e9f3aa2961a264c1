// Formatting of values, and creation of elements.

/** An element with these attributes and children. Text is never parsed as HTML, so that a cluster cannot inject any. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Replaces the children of an element, unless they are the same elements already. */
export function replaceIfOther(place, children) {
  const same = place.children.length === children.length && children.every((child, nth) => child === place.children[nth]);
  if (!same) place.replaceChildren(...children);
}

/** Replaces the children of an element, and keeps the focus on the link or button with the same text. */
export function refill(place, children) {
  const focused = place.contains(document.activeElement) ? document.activeElement.textContent : undefined;
  place.replaceChildren(...children);
  if (focused === undefined) return;
  [...place.querySelectorAll("a, button")].find((link) => link.textContent === focused)?.focus();
}

export const shared = (part, whole) => (whole > 0 ? part / whole : 0);
export const amount = (number) => number.toLocaleString("en-US");
export const counted = (number, noun) => `${amount(number)} ${noun}${number === 1 ? "" : "s"}`;
export const percent = (share) => `${Math.round(share * 100)} %`;
export const cpus = (millicores) => (millicores % 1000 === 0 ? `${amount(millicores / 1000)}` : `${amount(millicores)}m`);
export const sum = (all, of) => all.reduce((total, each) => total + of(each), 0);

export function dollars(number) {
  const digits = Math.abs(number) < 1 ? 4 : 2;
  const text = Math.abs(number).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: digits });
  return `${number < 0 ? "−" : ""}$${text}`;
}

/** A change of cost, with its sign. */
export const change = (number) => (number > 0 ? `+${dollars(number)}` : dollars(number));

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${number.toLocaleString("en-US", { maximumFractionDigits: 1 })} ${units[unit]}`;
}

/** Time of day, with the date unless it is the day of `now`. */
export function clock(at, now = at) {
  const [time, day] = [new Date(at), new Date(now)];
  const date = time.toDateString() === day.toDateString() ? "" : `${time.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return date + time.toLocaleTimeString("en-GB");
}

export const when = (at, now) => element("time", { datetime: at, title: new Date(at).toLocaleString("en-GB") }, clock(at, now));

/** Duration in its two largest units. */
export function duration(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const largest = units.findIndex(([, size]) => seconds >= size);
  if (largest < 0) return "0 s";
  const [[name, size], next] = [units[largest], units[largest + 1]];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${next[0]}` : ""}`;
}
