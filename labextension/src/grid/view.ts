/** A result: its page, what is selected of it, and the parts that act on it. */
import { Clipboard } from '@jupyterlab/apputils';
import { ChartView } from './chart';
import { kernelOf, Line } from './line';
import { ProfileView } from './profile';
import { cellText, isNested, PAGE_ROWS } from './protocol';
import type { IPage, IResult, ISelection, IWhole } from './protocol';
import type { ISite } from './renderer';
import { Table } from './table';
import { Tools } from './tools';
import { WholeView } from './whole';
import { css, h, setText } from '../dom';

/** After this long, a reply that has not come is waited for aloud. */
const PATIENCE_MS = 700;

export class ResultView {
  constructor(
    readonly result: IResult,
    readonly site: ISite
  ) {
    this._page = { at: 0, total: result.total, rows: result.rows };
    // No landmark: a notebook has many results, and landmarks need names of their own.
    this.node = h('div', { class: css('resultView'), role: 'group', 'aria-label': site.trans.__('Result') });
    this._table = new Table(
      {
        sort: (column, more) => this._sort(column, more),
        open: () => void this._openCell(),
        copy: () => void this.copy('text'),
        turn: to => this.turn(to),
        header: (column, place) => this.profile.draw(column, place),
        moved: () => setText(this._status, '')
      },
      site.trans
    );
    this._whole = new WholeView(site.trans, () => this._table.focus());
    this.profile = new ProfileView(this, this._table.node);
    this.chart = new ChartView(this);
    this._tools = new Tools(this);
    const notes = result.notes.map(note => h('div', { class: 'tabletopic-note' }, note));
    this.node.append(this._tools.node, this._table.node, this._status, this._whole.node, this.chart.node, ...notes);
    // JupyterLab's shortcuts would take letters, arrows and Enter; those that run cells are let through.
    this.node.addEventListener('keydown', event => this._keyed(event));
    this._draw();
  }

  readonly node: HTMLElement;
  readonly profile: ProfileView;
  readonly chart: ChartView;
  readonly hidden = new Set<number>();
  readonly pinned = new Set<number>();

  dispose(): void {
    this.profile.dispose();
    this.chart.dispose();
  }

  get page(): IPage {
    return this._page;
  }

  get selection(): ISelection {
    return this._selection;
  }

  /** Ask the kernel; what is wrong is said below the table, and the result is null. */
  async ask<T>(operation: string, more: Record<string, unknown> = {}): Promise<T | null> {
    const trans = this.site.trans;
    const kernel = kernelOf(this.site.app, this.node);
    if (kernel === null) {
      this.tell(trans.__('There is no kernel here that has the rows: run the cell again.'));
      return null;
    }
    const wait = window.setTimeout(() => this.tell(trans.__('Waiting for the kernel…')), PATIENCE_MS);
    try {
      const message = { operation, result: this.result.result, ...this._selection, ...more };
      const reply = await Line.to(kernel).ask<T>(JSON.parse(JSON.stringify(message)));
      setText(this._status, '');
      return reply;
    } catch (error) {
      const why = (error as Error).message;
      this.tell(why || trans.__('The kernel does not have these rows any more: run the cell again.'));
      return null;
    } finally {
      window.clearTimeout(wait);
    }
  }

  tell(text: string): void {
    setText(this._status, text);
  }

  /** Show the page from this row on, of what is selected now or by `selection`. */
  async go(at: number, selection: ISelection = this._selection): Promise<void> {
    const page = await this.ask<IPage>('page', { at: Math.max(0, at), ...selection });
    if (page !== null) {
      const isOther = selection !== this._selection;
      this._page = page;
      this._selection = selection;
      if (isOther) {
        this.profile.forget();
      }
      this._whole.close();
      this._draw();
      this.tell(isOther ? this._count() : '');
    }
  }

  turn(to: 'first' | 'back' | 'on' | 'last'): void {
    const { at, total } = this._page;
    const on = at + this._page.rows.length; // a file may hold less than a page
    const last = Math.max(on, Math.floor((total - 1) / PAGE_ROWS) * PAGE_ROWS);
    const next = { first: 0, back: Math.max(0, at - PAGE_ROWS), on, last }[to];
    if (next !== at && next < total) {
      void this.go(next);
    }
  }

  /** Draw again, with other columns. */
  arrange(): void {
    this._draw();
  }

  /** Of the selected cells, or the page if it is a single one and `form` is a table's. */
  async copy(form: 'text' | 'markdown' | 'insert', all = false): Promise<void> {
    const shown = this._shown();
    const { rows, columns } = this._table.range;
    const isOne = rows[0] === rows[1] && columns[0] === columns[1];
    const whole = all && isOne;
    const indexes = whole ? shown : shown.slice(columns[0], columns[1] + 1);
    const [from, to] = whole ? [0, this._page.rows.length - 1] : rows;
    const isHere = form === 'text' && isOne && !all;
    const cell = this._page.rows[from]?.[indexes[0] ?? 0] ?? null;
    const message = { form, at: this._page.at + from, count: to - from + 1, columns: indexes };
    const reply =
      isHere && (cell === null || typeof cell === 'string')
        ? { text: cell ?? '' }
        : await this.ask<{ text: string }>('copy', message);
    if (reply !== null) {
      try {
        await navigator.clipboard.writeText(reply.text);
      } catch {
        Clipboard.copyToSystem(reply.text); // over plain HTTP, and where the browser forbids it
      }
      const trans = this.site.trans;
      this.tell(isHere ? trans.__('Copied.') : this._copied(to - from + 1, indexes.length));
    }
  }

  async export(form: string): Promise<void> {
    const trans = this.site.trans;
    this.tell(trans.__('Writing the file…'));
    const reply = await this.ask<{ path: string; count: number }>('export', { form });
    if (reply !== null) {
      const count = reply.count.toLocaleString('en');
      this.tell(trans._n('%2 row is in %3', '%2 rows are in %3', reply.count, count, reply.path));
    }
  }

  /** The column of the focused cell. */
  get column(): number {
    return this._shown()[this._table.spot[1]] ?? 0;
  }

  private _shown(): number[] {
    const all = this.result.columns.map((_, index) => index).filter(index => !this.hidden.has(index));
    const isPinned = (index: number) => this.pinned.has(index);
    return [...all.filter(isPinned), ...all.filter(index => !isPinned(index))];
  }

  private _sort(column: number, more: boolean): void {
    const { sort, filters } = this._selection;
    const down = sort.find(([index]) => index === column)?.[1];
    const others = more ? sort.filter(([index]) => index !== column) : [];
    const key = down === undefined ? [[column, false] as const] : down ? [] : [[column, true] as const];
    void this.go(0, { filters, sort: [...others, ...key] }).then(() => {
      this.node.querySelector<HTMLElement>(`th[data-column="${column}"] button`)?.focus();
    });
  }

  private async _openCell(): Promise<void> {
    const [row] = this._table.spot;
    const column = this.column;
    const cell = this._page.rows[row]?.[column] ?? null;
    const info = this.result.columns[column];
    const isPlain = typeof cell === 'string' && !isNested(info?.type ?? '');
    const whole: IWhole | null =
      cell === null || isPlain
        ? { text: cell as string | null }
        : ((await this.ask<IWhole>('cell', { at: this._page.at + row, column })) ?? { text: cellText(cell) });
    const number = (this._page.at + row + 1).toLocaleString('en');
    this._whole.show(this.site.trans.__('%1, row %2', info?.name ?? '', number), whole);
  }

  private _keyed(event: KeyboardEvent): void {
    if (event.key === 'Escape' && !this._whole.node.hidden) {
      this._whole.close();
      this._table.focus();
      event.stopPropagation();
    } else if (!event.ctrlKey && !event.metaKey && !(event.shiftKey && event.key === 'Enter')) {
      event.stopPropagation();
    } else if (event.key === 'c' || event.key === 'Home' || event.key === 'End') {
      event.stopPropagation();
    }
  }

  private _copied(rows: number, columns: number): string {
    const { trans } = this.site;
    return trans.__('Copied %1 × %2.', this._rows(rows), trans._n('%2 column', '%2 columns', columns, columns));
  }

  private _rows(count: number): string {
    return this.site.trans._n('%2 row', '%2 rows', count, count.toLocaleString('en'));
  }

  private _count(): string {
    const { trans } = this.site;
    const { total } = this._page;
    const all = this.result.total.toLocaleString('en');
    const of = this._selection.filters.length > 0 ? trans.__('%1 of %2', total.toLocaleString('en'), this._rows(this.result.total)) : '';
    return of || (this.result.truncated ? trans.__('the first %1 rows; there are more', all) : this._rows(this.result.total));
  }

  private _draw(): void {
    const shown = this._shown();
    const { at, rows } = this._page;
    const pinned = shown.filter(index => this.pinned.has(index)).length;
    this._tools.update(this._count());
    this._table.update({ columns: this.result.columns, shown, pinned, rows, at, selection: this._selection });
    this.profile.watch();
  }

  private _page: IPage;
  private _selection: ISelection = { filters: [], sort: [] };
  private readonly _status = h('div', { class: css('gridStatus'), role: 'status' });
  private readonly _table: Table;
  private readonly _tools: Tools;
  private readonly _whole: WholeView;
}
