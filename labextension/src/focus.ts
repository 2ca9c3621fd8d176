/** Where the focus goes when what had it goes away: browsers drop it on the page, far from where a person was. */

const CONTROLS = 'button, input, summary, [tabindex="-1"]';

/** Do `update`; if the element of `root` that has the focus goes away by it, a sensible neighbour gets it. */
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
    ...controlsIn(block), // the button that took its place, or the words that did
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
