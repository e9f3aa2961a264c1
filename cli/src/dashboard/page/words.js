// Formatting of values, and creation of elements.

/** An element with these attributes and children. Text is never parsed as HTML, so that a cluster cannot inject any. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export const shared = (part, whole) => (whole > 0 ? part / whole : 0);
export const amount = (number) => number.toLocaleString("en-US");
export const counted = (number, noun) => `${amount(number)} ${noun}${number === 1 ? "" : "s"}`;
export const percent = (share) => `${Math.round(share * 100)} %`;
export const dollars = (number) => `$${number.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: number < 1 ? 4 : 2 })}`;
export const cpus = (millicores) => (millicores % 1000 === 0 ? `${millicores / 1000}` : `${millicores}m`);

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${number.toLocaleString("en-US", { maximumFractionDigits: 1 })} ${units[unit]}`;
}

export function clock(at) {
  return new Date(at).toLocaleTimeString("en-GB");
}

export function when(at) {
  return element("time", { datetime: at, title: new Date(at).toLocaleString("en-GB") }, clock(at));
}
