/** The records, a row each. Arrow keys select, as in a list. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { Chip } from '../chip';
import { css, h } from '../dom';
import { cellText } from '../grid/protocol';
import type { Cell } from '../grid/protocol';
import { placeOf, timeText, toneOf } from './protocol';
import type { IFate, IRecord } from './protocol';

const MOVES: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };

export class RecordList {
  constructor(
    trans: TranslationBundle,
    private readonly _select: (record: IRecord) => void
  ) {
    const names = [
      trans.__('Partition'),
      trans.__('Offset'),
      trans.__('Time (UTC)'),
      trans.__('What became of it'),
      trans.__('Key'),
      trans.__('Value')
    ];
    const heads = names.map(name => h('th', { scope: 'col', role: 'columnheader' }, name));
    this._table.setAttribute('aria-label', trans.__('Records'));
    this._table.append(h('thead', {}, h('tr', {}, ...heads)), this._body);
    this.node.append(this._table);
    this._body.addEventListener('click', event => this._choose((event.target as Element).closest('tr')));
    this._body.addEventListener('keydown', event => this._pressed(event));
  }

  readonly node = h('div', { class: css('recordsScroll') });

  get size(): number {
    return this._records.size;
  }

  replace(records: readonly IRecord[]): void {
    this._records.clear();
    this._selected = null;
    this._body.replaceChildren();
    this.append(records);
  }

  append(records: readonly IRecord[]): void {
    this._body.append(...this._rows(records));
    this._reachable();
  }

  /** Newer ones on top; the oldest beyond `most` go, unless selected. */
  prepend(records: readonly IRecord[], most: number): void {
    this._body.prepend(...this._rows(records));
    for (let row = this._body.lastElementChild; row !== null && this._body.children.length > most; ) {
      const before: Element | null = row.previousElementSibling;
      if (row !== this._selected) {
        this._records.delete((row as HTMLElement).dataset.place ?? '');
        row.remove();
      }
      row = before;
    }
    this._reachable();
  }

  /** Move the focus to the row with this number. */
  focusRow(index: number): void {
    (this._body.children[index] as HTMLElement | undefined)?.focus();
  }

  /** Back to the row of the record that is shown whole. */
  focusSelected(): void {
    this._selected?.focus();
  }

  /** What became of a record, looked up again. */
  became(record: IRecord): void {
    const place = placeOf(record);
    for (const row of this._body.children) {
      if ((row as HTMLElement).dataset.place === place) {
        row.children[3]?.replaceChildren(this._fate(record.fate));
      }
    }
  }

  private _rows(records: readonly IRecord[]): HTMLElement[] {
    return records.map(record => {
      this._records.set(placeOf(record), record);
      return h(
        'tr',
        { tabindex: '-1', 'data-place': placeOf(record), 'aria-selected': 'false' },
        h('td', { class: css('number') }, String(record.partition)),
        h('td', { class: css('number') }, String(record.offset)),
        h('td', {}, timeText(record.timestamp_ms)),
        h('td', {}, this._fate(record.fate)),
        this._text(record.key),
        record.error === null ? this._text(record.value) : h('td', { class: css('bad') }, cellText(record.error))
      );
    });
  }

  private _text(cell: Cell): HTMLElement {
    return h('td', { class: cell === null ? css('gridNull') : null }, cellText(cell));
  }

  private _fate(fate: IFate | null): HTMLElement {
    const chip = new Chip();
    chip.update(fate === null ? null : { text: fate.text, tone: toneOf(fate) });
    chip.node.title = fate?.text ?? '';
    return chip.node;
  }

  private _pressed(event: KeyboardEvent): void {
    const row = (event.target as Element).closest('tr');
    const rows = [...this._body.children] as HTMLElement[];
    const at = rows.indexOf(row as HTMLElement);
    const ends: Readonly<Record<string, number>> = { Home: 0, End: rows.length - 1, Enter: at, ' ': at };
    const step = MOVES[event.key];
    const to = ends[event.key] ?? (step === undefined ? undefined : at + step);
    if (at >= 0 && to !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this._choose(rows[Math.max(0, Math.min(rows.length - 1, to))] as HTMLTableRowElement);
    }
  }

  private _choose(row: HTMLTableRowElement | null): void {
    const record = this._records.get(row?.dataset.place ?? '');
    if (row === null || record === undefined) {
      return;
    }
    this._selected?.setAttribute('aria-selected', 'false');
    this._selected = row;
    row.setAttribute('aria-selected', 'true');
    this._reachable();
    row.focus();
    this._select(record);
  }

  /** One row can be reached by Tab. */
  private _reachable(): void {
    for (const row of this._body.querySelectorAll('[tabindex="0"]')) {
      row.setAttribute('tabindex', '-1');
    }
    const row = this._selected?.isConnected ? this._selected : this._body.firstElementChild;
    row?.setAttribute('tabindex', '0');
  }

  private readonly _records = new Map<string, IRecord>();
  private readonly _body = h('tbody');
  private readonly _table = h('table', { class: `${css('grid')} ${css('recordsTable')}`, role: 'grid' });
  private _selected: HTMLTableRowElement | null = null;
}
