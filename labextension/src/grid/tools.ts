/** Above the table: pages, filters, columns, profile, copy, export, chart. */
import { css, h, setAttribute, setShown, setText, textButton } from '../dom';
import type { ResultView } from './view';

const COMPARISONS = ['contains', '=', '!=', '<', '<=', '>', '>=', 'null', 'not null'];

export class Tools {
  constructor(private readonly _view: ResultView) {
    const trans = _view.site.trans;
    const turn = (to: 'first' | 'back' | 'on' | 'last', sign: string, label: string) => {
      const button = textButton(sign, () => _view.turn(to));
      button.setAttribute('aria-label', label);
      button.title = label;
      return button;
    };
    this._back.push(turn('first', '«', trans.__('First page')), turn('back', '‹', trans.__('Previous page')));
    this._on.push(turn('on', '›', trans.__('Next page')), turn('last', '»', trans.__('Last page')));
    this._row.setAttribute('aria-label', trans.__('Go to row'));
    this._row.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        void _view.go((Number(this._row.value) || 1) - 1);
      }
    });
    this._profile = textButton(trans.__('Profile'), () => {
      this._profile.setAttribute('aria-pressed', String(_view.profile.toggle()));
      _view.arrange();
    });
    this._profile.setAttribute('aria-pressed', 'false');
    const forms = { [trans.__('Text')]: 'text', Markdown: 'markdown', INSERT: 'insert' } as const;
    this.node.append(
      h('div', { class: css('gridTools'), role: 'toolbar', 'aria-label': trans.__('Result') },
        this._count, ...this._back, this._row, ...this._on,
        this._menu(trans.__('Filter'), this._filterForm()),
        this._menu(trans.__('Columns'), this._columns),
        this._profile,
        this._menu(trans.__('Copy'), ...Object.entries(forms).map(([label, form]) =>
          this._item(label, () => void _view.copy(form, true)))),
        this._menu(trans.__('Export'), ...['CSV', 'Parquet', 'Arrow'].map(form =>
          this._item(form, () => void _view.export(form.toLowerCase())))),
        textButton(trans.__('Chart'), () => void _view.chart.open())
      ),
      this._chips
    );
  }

  readonly node = h('div');

  update(count: string): void {
    const { at, total, rows } = this._view.page;
    setText(this._count, count);
    this._row.value = String(total === 0 ? 0 : at + 1);
    this._row.max = String(total);
    for (const [buttons, isAtEnd] of [[this._back, at === 0], [this._on, at + rows.length >= total]] as const) {
      // They keep the focus, which a disabled button would lose.
      buttons.forEach(button => setAttribute(button, 'aria-disabled', isAtEnd ? 'true' : null));
    }
    const isOnePage = rows.length >= total;
    [...this._back, this._row, ...this._on].forEach(part => setShown(part, !isOnePage));
    this._drawChips();
    this._drawColumns();
  }

  private _drawChips(): void {
    const { selection, result, site } = this._view;
    const chips = selection.filters.map((filter, index) => {
      const [column, how, text] = filter;
      const words = [result.columns[column]?.name, how, text].join(' ').trim();
      const button = textButton(`${words} ×`, () => {
        const filters = selection.filters.filter((_, other) => other !== index);
        void this._view.go(0, { ...selection, filters });
        this._filter.focus();
      });
      button.setAttribute('aria-label', site.trans.__('Remove the filter %1', words));
      return button;
    });
    this._chips.replaceChildren(...chips);
  }

  private _drawColumns(): void {
    const { result, hidden, pinned, site } = this._view;
    if (this._columns.childElementCount > 0) {
      return;
    }
    const box = (label: string, name: string, isOn: boolean, set: (on: boolean) => void) => {
      const input = h('input', { type: 'checkbox', 'aria-label': `${label} ${name}` });
      input.checked = isOn;
      input.addEventListener('change', () => {
        set(input.checked);
        this._view.arrange();
      });
      return h('label', {}, input, label);
    };
    const change = (set: Set<number>, index: number, on: boolean) => void (on ? set.add(index) : set.delete(index));
    this._columns.append(
      ...result.columns.map(({ name }, index) =>
        h('div', { class: css('gridColumn') },
          h('span', {}, name),
          box(site.trans.__('shown'), name, !hidden.has(index), on => change(hidden, index, !on)),
          box(site.trans.__('pinned'), name, pinned.has(index), on => change(pinned, index, on))
        )
      )
    );
  }

  private _filterForm(): HTMLElement {
    const { result, site } = this._view;
    const trans = site.trans;
    const column = h('select', { 'aria-label': trans.__('Column') });
    column.append(...result.columns.map(({ name }, index) => h('option', { value: String(index) }, name)));
    const how = h('select', { 'aria-label': trans.__('Comparison') });
    how.append(...COMPARISONS.map(name => h('option', {}, name)));
    const text = h('input', { 'aria-label': trans.__('Value'), placeholder: trans.__('value') });
    const add = () => {
      const { selection } = this._view;
      const filter = [Number(column.value), how.value, how.value.endsWith('null') ? '' : text.value] as const;
      void this._view.go(0, { ...selection, filters: [...selection.filters, filter] });
    };
    text.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        add();
      }
    });
    how.addEventListener('change', () => setShown(text, !how.value.endsWith('null')));
    this._filter = text;
    this._opened = () => {
      column.value = String(this._view.column);
      text.focus();
    };
    return h('div', { class: css('gridFilter') }, column, how, text, textButton(trans.__('Add filter'), add));
  }

  private _item(label: string, run: () => void): HTMLElement {
    return textButton(label, () => {
      this.node.querySelectorAll('details').forEach(menu => (menu.open = false));
      run();
    });
  }

  /** What opens below its button, and closes with Escape or when the focus goes elsewhere. */
  private _menu(label: string, ...parts: HTMLElement[]): HTMLElement {
    const summary = h('summary', { class: 'jp-mod-styled' }, label);
    const menu = h('details', { class: css('gridMenu') }, summary, h('div', {}, ...parts));
    menu.addEventListener('keydown', event => {
      if (event.key === 'Escape' && menu.open) {
        menu.open = false;
        summary.focus();
        event.stopPropagation();
      }
    });
    menu.addEventListener('focusout', event => {
      if (event.relatedTarget instanceof Node && !menu.contains(event.relatedTarget)) {
        menu.open = false;
      }
    });
    menu.addEventListener('toggle', () => {
      if (menu.open && menu.contains(this._filter)) {
        this._opened();
      }
    });
    return menu;
  }

  private readonly _count = h('span', { class: css('gridCount') });
  private readonly _row = h('input', { type: 'number', min: '1', class: css('gridJump') });
  private readonly _back: HTMLButtonElement[] = [];
  private readonly _on: HTMLButtonElement[] = [];
  private readonly _columns = h('div', { class: css('gridColumns') });
  private readonly _chips = h('div', { class: css('gridChips') });
  private readonly _profile: HTMLButtonElement;
  private _filter: HTMLInputElement = h('input');
  private _opened: () => void = () => undefined;
}
