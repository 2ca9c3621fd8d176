/** One cell whole: a text, nested values as a tree, bytes as a hex dump. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { css, h, setShown, setText, textButton } from '../dom';
import type { IWhole, Tree } from './protocol';

/** Nested values are open down to here. */
const OPEN_LEVELS = 2;

export class WholeView {
  constructor(
    private readonly _trans: TranslationBundle,
    back: () => void
  ) {
    const close = textButton(_trans.__('Close'), () => {
      this.close();
      back();
    });
    this.node = h('section', { class: css('whole') });
    this.node.append(h('div', { class: css('wholeHead') }, this._title, close), this._body);
    this.close();
  }

  readonly node: HTMLElement;

  show(title: string, whole: IWhole): void {
    setText(this._title, title);
    this._body.setAttribute('aria-label', title);
    this._body.replaceChildren(...contentOf(whole, this._trans));
    setShown(this.node, true);
    this._body.focus({ preventScroll: true });
    this.node.scrollIntoView({ block: 'nearest' });
  }

  close(): void {
    setShown(this.node, false);
  }

  private readonly _title = h('b');
  // Scrolls, so it takes the focus.
  private readonly _body = h('div', { class: css('wholeBody'), tabindex: '0', role: 'group' });
}

/** One value, as it is looked at. */
export function contentOf(whole: IWhole, trans: TranslationBundle): HTMLElement[] {
  if (whole.tree !== undefined) {
    return [branch(whole.tree, 0, trans)];
  }
  const text = whole.hex ?? whole.text;
  if (text === null || text === undefined) {
    return [h('i', { class: css('gridNull') }, 'null')];
  }
  const rest = (whole.length ?? 0) > text.length && whole.hex === undefined;
  const length = (whole.length ?? text.length).toLocaleString('en');
  const size = whole.hex !== undefined ? trans.__('%1 bytes', length) : trans.__('%1 characters', length);
  return [
    h('div', { class: css('quiet') }, rest ? trans.__('%1, of which this is the beginning', size) : size),
    h('pre', { class: whole.hex === undefined ? null : css('hex') }, text)
  ];
}

function branch(tree: Tree, level: number, trans: TranslationBundle): HTMLElement {
  if (tree === null || typeof tree === 'string') {
    return h('span', { class: tree === null ? css('gridNull') : null }, tree ?? 'null');
  }
  const items = tree.map(([name, inner]) => {
    if (inner === null || typeof inner === 'string') {
      return h('li', {}, h('b', {}, `${name}: `), branch(inner, level + 1, trans));
    }
    const summary = h('summary', {}, h('b', {}, name), ` (${inner.length.toLocaleString('en')})`);
    return h('li', {}, h('details', { open: level < OPEN_LEVELS }, summary, branch(inner, level + 1, trans)));
  });
  return items.length > 0 ? h('ul', {}, ...items) : h('span', { class: css('quiet') }, trans.__('empty'));
}
