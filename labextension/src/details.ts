/** The details below a row: the table's columns and the topic's last events, fetched when unfolded. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { reasonOf } from './api';
import type { IColumn, IRow, ITopicSchema, TopicApi } from './api';
import { outerType, partsOf } from './columntypes';
import { css, h, setAttribute, setText } from './dom';
import type { IView } from './dom';
import { ASKED, EventList } from './events';

/** The row, and whether it is older than the servers' silence. */
export interface IDetailsData {
  readonly row: IRow;
  readonly staleMs: number | null;
}

/** Fetched again when the row shows something new, and only while unfolded and the servers respond. */
export class RowDetails implements IView<IDetailsData> {
  constructor(
    private readonly _topic: string,
    private readonly _api: TopicApi,
    private readonly _trans: TranslationBundle
  ) {
    this._list = new EventList(_trans);
    this.node = h('div', { class: css('details') }, this._table, this._later, this._columns, this._events);
  }

  readonly node: HTMLElement;

  update({ row, staleMs }: IDetailsData): void {
    if (this.node.hidden) {
      return;
    }
    setText(this._table, row.table === null ? '' : this._trans.__('Table %1', row.table));
    this._stale = staleMs !== null;
    if (this._stale) {
      this._stand = null; // the banner says why, and what is known stays
      for (const section of [this._columns, this._events].filter(each => (this._texts.get(each) ?? null) === null)) {
        section.replaceChildren();
      }
      setText(this._later, this._columns.firstChild === null ? this._trans.__('Columns and events come later.') : '');
      return;
    }
    setText(this._later, '');
    const stand = [row.enabled, row.schema_version, row.commits, row.state, row.error].join('|');
    if (stand !== this._stand) {
      this._stand = stand;
      const columns = this._trans.__('Columns');
      void this._fetch(this._columns, columns, this._api.schema(this._topic), schema => this._schema(schema));
      const lately = this._trans.__('Last events');
      void this._fetch(this._events, lately, this._api.events(this._topic, ASKED), ({ events }) => [
        this._list.draw(events)
      ]);
    }
  }

  /** Display an answer, unless a newer one was asked for, or it is displayed already: what is unfolded stays so. */
  private async _fetch<T>(
    section: HTMLElement,
    title: string,
    asked: Promise<T>,
    content: (answer: T) => HTMLElement[]
  ): Promise<void> {
    const heading = h('h4', {}, title);
    if (section.firstChild === null) {
      section.replaceChildren(heading, h('p', { class: css('quiet') }, this._trans.__('Loading…')));
    }
    setAttribute(section, 'aria-busy', 'true');
    this._asked.set(section, asked);
    let text: string | null;
    let fresh: HTMLElement[] | null;
    try {
      const answer = await asked;
      text = JSON.stringify(answer);
      fresh = text === this._texts.get(section) ? null : content(answer);
    } catch (error) {
      text = null;
      // What is known stays: the next overview retries, or says what does not respond.
      const known = (this._texts.get(section) ?? null) !== null;
      const words = this._stale ? h('p', { class: css('quiet') }, '…') : h('p', { class: css('error') }, reasonOf(error));
      fresh = known ? null : [words];
    }
    if (this._asked.get(section) !== asked) {
      return;
    }
    if (text === null) {
      this._stand = null; // retry with the next overview
    }
    if (fresh !== null) {
      section.replaceChildren(heading, ...fresh);
      this._texts.set(section, text);
    }
    setAttribute(section, 'aria-busy', null);
  }

  private _schema(schema: ITopicSchema): HTMLElement[] {
    if (schema.columns.length === 0) {
      return [h('p', { class: css('quiet') }, this._trans.__('No columns yet: the first record determines them.'))];
    }
    const newest = schema.versions.at(-1);
    const versions =
      newest === undefined
        ? null
        : this._trans.__('Registered: %1, newest version %2 (id %3)', newest.subject, newest.version, newest.id);
    const tree = h('ul', { class: css('columns') }, ...schema.columns.map(column => this._column(column)));
    return versions === null ? [tree] : [tree, h('p', { class: css('quiet') }, versions)];
  }

  private _column(column: IColumn): HTMLElement {
    const parts = partsOf(column.type);
    const words = outerType(column.type) + (column.required ? ` · ${this._trans.__('required')}` : '');
    const line = [h('span', { class: css('columnName') }, column.name), ' ', h('span', { class: css('columnType') }, words)];
    const item = h('li', { title: column.doc });
    if (parts.length === 0) {
      item.append(...line);
      return item;
    }
    const inner = h('ul', { class: css('columns') });
    const fold = h('details', {}, h('summary', {}, ...line), inner);
    fold.addEventListener('toggle', () => {
      if (fold.open && inner.firstChild === null) {
        inner.append(...parts.map(part => this._column({ ...part, required: false, doc: null })));
      }
    });
    item.append(fold);
    return item;
  }

  private readonly _list: EventList;
  private readonly _table = h('p', { class: css('quiet') });
  private readonly _later = h('p', { class: css('quiet') });
  private readonly _columns = h('section');
  private readonly _events = h('section');
  private _stale = false;
  private _stand: string | null = null;
  /** By section: the newest request, and the displayed answer. */
  private readonly _asked = new Map<HTMLElement, Promise<unknown>>();
  private readonly _texts = new Map<HTMLElement, string | null>();
}
