// audit: to come.
import { empty, heading } from "../widgets.js";

export function render(root, { t }) {
  root.append(heading(t("page.audit")), empty(t("shell.nothing")));
}
