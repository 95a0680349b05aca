// What the API refused, as people read it: a sentence, and each error with its field.
import { h, put } from "./dom.js";
import { t } from "./i18n.js";

/** Return the sentence of an error. */
export const sentence = (error) => (error.status === 0 ? t("shell.unreachable") : error.message);

/** Return an element for an error; `onpick(problem)` makes each of its problems a button. */
export function refusal(error, onpick = null) {
  const line = (one) => {
    const text = [one.document, one.field, one.message].filter(Boolean).join(" ");
    return h("li", {}, onpick ? h("button", { type: "button", class: "quiet", onclick: () => onpick(one) }, text) : text);
  };
  return h("div", { class: "notice bad", role: "alert" },
    // Each error says more than the sentence that counts them.
    error.errors?.length ? h("ul", { class: "problems" }, error.errors.map(line)) : h("p", {}, sentence(error)));
}

/** Run `action`; what it throws is put into `place`. Returns whether it went well. */
export async function attempt(place, action) {
  put(place);
  try {
    await action();
    return true;
  } catch (error) {
    put(place, refusal(error));
    place.scrollIntoView?.({ block: "nearest" });
    return false;
  }
}
