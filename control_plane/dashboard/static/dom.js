// Elements. Text is always a text node: nothing that came from outside is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. `props`: `class`, `on…` listeners, `data-…`/`aria-…` and other attributes; `value`,
 * `checked`, `disabled`, `open` are set as properties. False, null and undefined leave an attribute away.
 */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Make an SVG element. */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "hidden"]);

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Put `children` in place of what is in `element`. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Set an element's text, and touch the document only if it changes. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
