/** What the details of tables and subjects are made of. */
import { reasonOf } from '../api';
import { css, h, words } from '../dom';

export type Cell = string | HTMLElement;

/** A table that scrolls by itself; the columns named in `numbers` are to the right. */
export function grid(label: string, heads: readonly string[], rows: readonly (readonly Cell[])[], numbers: readonly number[] = []): HTMLElement {
  const kind = (index: number) => (numbers.includes(index) ? css('catalogNumber') : null);
  const head = h('tr', {}, ...heads.map((text, index) => h('th', { scope: 'col', class: kind(index) }, text)));
  const body = rows.map(row => h('tr', {}, ...row.map((cell, index) => h('td', { class: kind(index) }, cell))));
  return h('div', { class: css('catalogScroll'), tabindex: '0', role: 'region', 'aria-label': label },
    h('table', {}, h('thead', {}, head), h('tbody', {}, ...body))
  );
}

/** A section that unfolds; its content is made, or asked for, the first time. */
export function fold(title: string, content: () => HTMLElement[] | Promise<HTMLElement[]>, open = false): HTMLElement {
  const place = h('div');
  const node = h('details', { class: css('catalogFold') }, h('summary', {}, title), place);
  node.addEventListener('toggle', () => {
    if (node.open && place.firstChild === null) {
      void fill(place, content);
    }
  });
  node.open = open;
  return node;
}

/** Put an answer into its place, or why there is none. */
export async function fill(place: HTMLElement, content: () => HTMLElement[] | Promise<HTMLElement[]>): Promise<void> {
  place.replaceChildren(h('p', { class: css('quiet') }, '…'));
  place.setAttribute('aria-busy', 'true');
  try {
    place.replaceChildren(...(await content()));
  } catch (error) {
    place.replaceChildren(trouble(reasonOf(error)));
  }
  place.removeAttribute('aria-busy');
}

/** Why something is not known, and what to do. */
export function trouble(reason: string): HTMLElement {
  return h('p', { class: css('error') }, ...words(reason));
}

/** A name that can be dragged into a cell, as `text`. */
export function draggable(name: string, text: string): HTMLElement {
  return h('span', { class: css('catalogDrag'), draggable: 'true', 'data-drag': text }, name);
}

/** One of several, by its index. */
export function choice(label: string, options: readonly string[], chosen: number, changed: () => void): HTMLSelectElement {
  const all = options.map((text, index) => h('option', { value: String(index), selected: index === chosen }, text));
  const select = h('select', { class: 'jp-mod-styled', 'aria-label': label }, ...all);
  select.addEventListener('change', changed);
  return select;
}

/** Bytes, with the units of the command line: "1.5 MiB". */
export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const at = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${(count / 1024 ** at).toFixed(at === 0 ? 0 : 1)} ${units[at]}`;
}
