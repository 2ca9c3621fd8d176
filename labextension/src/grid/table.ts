/** The table of a page: cells by arrows, Shift extends what is copied. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { css, h } from '../dom';
import { cellText, isNested } from './protocol';
import type { Cell, IColumn, ISelection } from './protocol';

export interface ITableData {
  readonly columns: readonly IColumn[];
  /** Indexes of the columns shown, pinned ones first. */
  readonly shown: readonly number[];
  readonly pinned: number;
  readonly rows: readonly (readonly Cell[])[];
  readonly at: number;
  readonly selection: ISelection;
}

export interface ITableActions {
  sort(column: number, more: boolean): void;
  open(): void;
  copy(): void;
  /** Another page: pages forward or back, or an end. */
  turn(to: 'first' | 'back' | 'on' | 'last'): void;
  /** A header as it is drawn. */
  header(column: number, place: HTMLElement): void;
  moved(): void;
}

/** Row of the page and position among the columns shown. */
export type Spot = readonly [number, number];

export class Table {
  constructor(
    private readonly _actions: ITableActions,
    private readonly _trans: TranslationBundle
  ) {
    this.node.append(this._table);
    new ResizeObserver(() => this._pin()).observe(this._table);
    this._table.addEventListener('keydown', event => this._keyed(event));
    this._table.addEventListener('click', event => this._clicked(event));
  }

  readonly node = h('div', { class: css('gridScroll') });

  /** The cell that has, or would get, the focus. */
  get spot(): Spot {
    return this._spot;
  }

  /** First and last row and column of what is selected. */
  get range(): { rows: [number, number]; columns: [number, number] } {
    const [[a, b], [c, d]] = [this._spot, this._anchor];
    return { rows: [Math.min(a, c), Math.max(a, c)], columns: [Math.min(b, d), Math.max(b, d)] };
  }

  update(data: ITableData): void {
    const hadFocus = this._body.contains(document.activeElement);
    this._data = data;
    this._table.setAttribute('aria-colcount', String(data.columns.length));
    this._body.replaceChildren(...data.rows.map((row, index) => this._row(row, index)));
    this._table.replaceChildren(h('thead', {}, this._head()), this._body);
    this._pin();
    this._move(this._spot, false, hadFocus);
  }

  focus(): void {
    this._cell(this._spot)?.focus();
  }

  private _head(): HTMLElement {
    const { columns, shown, selection } = this._data;
    const cells = shown.map(index => {
      const column = columns[index] as IColumn;
      const place = selection.sort.findIndex(([other]) => other === index);
      const down = selection.sort[place]?.[1] ?? false;
      const sign = place < 0 ? '' : `${down ? '↓' : '↑'}${selection.sort.length > 1 ? place + 1 : ''}`;
      const button = h('button', { type: 'button', class: css('gridSort') }, column.name);
      button.append(h('span', { 'aria-hidden': 'true' }, sign === '' ? '' : ` ${sign}`));
      button.title = this._trans.__('Sort by %1; with Shift, within the columns sorted so far', column.name);
      button.addEventListener('click', event => this._actions.sort(index, event.shiftKey));
      const sorted = place < 0 ? 'none' : down ? 'descending' : 'ascending';
      const header = h('th', { scope: 'col', 'aria-sort': sorted, 'data-column': String(index) }, button);
      header.append(h('div', { class: css('gridType'), title: column.type }, column.type));
      this._actions.header(index, header);
      return header;
    });
    return h('tr', {}, h('th', { scope: 'col' }, h('span', { class: css('announcer') }, this._trans.__('Row'))), ...cells);
  }

  private _row(row: readonly Cell[], index: number): HTMLElement {
    const cells = this._data.shown.map(column => {
      const cell = row[column] ?? null;
      const number = this._data.columns[column]?.number === true;
      const isCut = cell !== null && typeof cell !== 'string';
      const classes = [cell === null ? css('gridNull') : '', number ? css('gridNumber') : ''].join(' ').trim();
      return h('td', { tabindex: '-1', class: classes || null, 'data-cut': isCut }, cellText(cell));
    });
    const number = (this._data.at + index + 1).toLocaleString('en');
    return h('tr', {}, h('th', { scope: 'row' }, number), ...cells);
  }

  /** Pinned columns stay beside the row numbers: each as far from the left as those before it are wide. */
  private _pin(): void {
    const pinned = this._data.pinned + 1;
    const heads = [...(this._table.tHead?.rows[0]?.cells ?? [])].slice(0, pinned);
    let left = 0;
    const lefts = heads.map(head => (left += head.offsetWidth) - head.offsetWidth);
    for (const row of this._table.rows) {
      for (let index = 0; index < pinned; index++) {
        const cell = row.cells[index];
        cell?.classList.add(css('gridPinned'));
        cell?.style.setProperty('left', `${lefts[index] ?? 0}px`);
      }
    }
  }

  private _cell([row, column]: Spot): HTMLTableCellElement | null {
    return this._body.rows[row]?.cells[column + 1] ?? null;
  }

  private _move(to: Spot, extend: boolean, focus = true): void {
    const last: Spot = [this._data.rows.length - 1, this._data.shown.length - 1];
    const within = (value: number, most: number) => Math.max(0, Math.min(value, most));
    const clear = this._cell(this._spot);
    clear?.setAttribute('tabindex', '-1');
    this._spot = [within(to[0], last[0]), within(to[1], last[1])];
    this._anchor = extend ? this._anchor : this._spot;
    const cell = this._cell(this._spot);
    cell?.setAttribute('tabindex', '0');
    if (focus) {
      cell?.focus({ preventScroll: true });
      cell?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    }
    this._mark();
    this._actions.moved();
  }

  private _mark(): void {
    for (const cell of this._body.querySelectorAll('[aria-selected]')) {
      cell.removeAttribute('aria-selected');
    }
    const { rows, columns } = this.range;
    for (let row = rows[0]; row <= rows[1]; row++) {
      for (let column = columns[0]; column <= columns[1]; column++) {
        this._cell([row, column])?.setAttribute('aria-selected', 'true');
      }
    }
  }

  private _clicked(event: MouseEvent): void {
    const cell = (event.target as Element).closest('td');
    const row = cell?.parentElement as HTMLTableRowElement | undefined;
    if (cell && row) {
      this._move([row.sectionRowIndex, cell.cellIndex - 1], event.shiftKey);
      const type = this._data.columns[this._data.shown[this._spot[1]] ?? 0]?.type ?? '';
      const isCut = cell.scrollWidth > cell.clientWidth || cell.dataset.cut !== undefined;
      if (!event.shiftKey && (isCut || isNested(type))) {
        this._actions.open();
      }
    }
  }

  private _keyed(event: KeyboardEvent): void {
    if (!(event.target instanceof HTMLTableCellElement)) {
      return;
    }
    const cell = event.target;
    if (cell !== this._cell(this._spot)) {
      this._move([(cell.parentElement as HTMLTableRowElement).sectionRowIndex, cell.cellIndex - 1], false);
    }
    const [row, column] = this._spot;
    const far = event.ctrlKey || event.metaKey;
    const keys: Record<string, () => void> = {
      ArrowUp: () => this._move([row - 1, column], event.shiftKey),
      ArrowDown: () => this._move([row + 1, column], event.shiftKey),
      ArrowLeft: () => this._move([row, column - 1], event.shiftKey),
      ArrowRight: () => this._move([row, column + 1], event.shiftKey),
      Home: () => (far ? this._actions.turn('first') : this._move([row, 0], event.shiftKey)),
      End: () => (far ? this._actions.turn('last') : this._move([row, Infinity], event.shiftKey)),
      PageUp: () => this._actions.turn('back'),
      PageDown: () => this._actions.turn('on'),
      Enter: () => this._actions.open(),
      ' ': () => this._actions.open(),
      c: () => this._actions.copy()
    };
    const run = keys[event.key];
    if (run !== undefined && far === (event.key === 'c' || (far && /^(Home|End)$/.test(event.key)))) {
      event.preventDefault();
      run();
    }
  }

  private _data: ITableData = {
    columns: [], shown: [], pinned: 0, rows: [], at: 0, selection: { filters: [], sort: [] }
  };
  private _spot: Spot = [0, 0];
  private _anchor: Spot = [0, 0];
  private readonly _body = h('tbody');
  private readonly _table = h('table', { class: css('grid'), role: 'grid' });
}
