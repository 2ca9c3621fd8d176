/** Where the focus goes when its element disappears: browsers move it to the page, far from the user's place. */

const CONTROLS = 'button, input, summary, [tabindex="-1"]';

/** Run `update`; if it removes the focused element of `root`, a sensible neighbour gets the focus. */
export function keepingFocus(root: HTMLElement, update: () => void): void {
  const held = document.activeElement;
  if (!(held instanceof HTMLElement) || held === root || !root.contains(held)) {
    update();
    return;
  }
  const block = held.parentElement;
  const row = held.closest('li');
  const before = controlsIn(root);
  const index = before.indexOf(held);
  update();
  if (isUsable(held) || (document.activeElement !== held && root.contains(document.activeElement))) {
    return;
  }
  const near = [
    ...controlsIn(block), // the button or text that replaced it
    ...controlsIn(row),
    ...before.slice(index + 1),
    ...before.slice(0, index).reverse()
  ];
  near.find(isUsable)?.focus();
}

function controlsIn(parent: Element | null): HTMLElement[] {
  return parent === null ? [] : [...parent.querySelectorAll<HTMLElement>(CONTROLS)];
}

function isUsable(element: HTMLElement): boolean {
  return element.isConnected && !element.matches(':disabled') && element.getClientRects().length > 0;
}
