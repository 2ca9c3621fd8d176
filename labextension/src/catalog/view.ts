/** Tables and subjects: a list by catalog, namespace and registry, and beside it what is chosen. */
import { LoadedView } from '../lazypage';
import { reasonOf } from '../api';
import { css, h, setShown, textButton } from '../dom';
import { fill, trouble } from './parts';
import { subjectDetail } from './subjectdetail';
import { tableDetail } from './tabledetail';
import type { IDetailSite } from './tabledetail';

interface IItem {
  readonly group: string;
  readonly label: string;
  /** The key of what it opens: a table's name, or a subject's. */
  readonly kind: 'table' | 'subject';
  readonly name: string;
  /** Of the table topic whose table it is; null without one. */
  readonly topic: string | null;
}

export class CatalogView extends LoadedView {
  constructor(private readonly _site: IDetailSite) {
    super();
    const { trans } = _site;
    const name = trans.__('Filter tables and subjects');
    this._filter = h('input', { type: 'search', class: 'jp-mod-styled', placeholder: trans.__('Filter'), 'aria-label': name });
    this._filter.addEventListener('input', () => this._list());
    const refresh = textButton(trans.__('Refresh'), () => this._refresh());
    this._items.setAttribute('aria-label', trans.__('Tables and subjects'));
    const side = h('div', { class: css('catalogSide') },
      h('div', { class: css('catalogButtons') }, this._filter, refresh), this._troubles, this._items, this._none
    );
    this._none.append(trans.__('Nothing matches.'));
    this._detail.setAttribute('aria-label', trans.__('Detail'));
    this._detail.append(h('p', { class: css('quiet') }, trans.__('Choose a table or a subject.')));
    this.node.append(side, this._detail);
    this._items.addEventListener('click', event => this._pick(event.target));
    this._items.addEventListener('keydown', event => this._key(event));
    this.node.addEventListener('dragstart', event => {
      const text = event.target instanceof HTMLElement ? event.target.dataset.drag : undefined;
      if (text !== undefined) {
        event.dataTransfer?.setData('text/plain', text);
      }
    });
  }

  readonly node = h('div', { class: css('catalog') });

  focus(): void {
    this._filter.focus();
  }

  /** Show a table, also if the list does not have it. */
  openTable(name: string): void {
    this._open({ group: '', label: name, kind: 'table', name, topic: null });
  }

  private _refresh(): void {
    void this.load();
    if (this._chosen !== null) {
      this._open(this._chosen);
    }
  }

  protected async load(): Promise<void> {
    const { api, trans } = this._site;
    this._items.setAttribute('aria-busy', 'true');
    const [tables, subjects] = await Promise.allSettled([api.tables(), api.subjects()]);
    const troubles = tables.status === 'fulfilled' ? [...tables.value.troubles] : [reasonOf(tables.reason)];
    const all: IItem[] = [];
    if (tables.status === 'fulfilled') {
      const topics = this._site.topics();
      for (const { catalog, namespace, name, table } of tables.value.tables) {
        all.push({ group: `${catalog} · ${namespace}`, label: name, kind: 'table', name: table, topic: topics.get(table.replaceAll('"', '')) ?? null });
      }
    }
    if (subjects.status === 'fulfilled') {
      const group = trans.__('Subjects of the registry');
      all.push(...subjects.value.map(name => ({ group, label: name, kind: 'subject' as const, name, topic: null })));
    } else {
      troubles.push(reasonOf(subjects.reason));
    }
    this._all = all;
    this._troubles.replaceChildren(...troubles.map(trouble));
    this._items.removeAttribute('aria-busy');
    this._list();
  }

  private _list(): void {
    const wanted = this._filter.value.trim().toLowerCase();
    const shown = this._all.filter(each => `${each.group} ${each.label} ${each.topic ?? ''}`.toLowerCase().includes(wanted));
    const groups = new Map<string, HTMLElement>();
    this._nodes.clear();
    for (const item of shown) {
      let group = groups.get(item.group);
      if (group === undefined) {
        group = h('div', { role: 'group', 'aria-label': item.group });
        group.append(h('div', { class: css('catalogGroup'), 'aria-hidden': 'true' }, item.group));
        groups.set(item.group, group);
      }
      const of = item.topic === null ? null : this._site.trans.__('topic %1', item.topic);
      const title = of === null ? item.label : `${item.label} · ${of}`;
      const node = h('div', { role: 'option', tabindex: '-1', title, class: css('catalogItem') }, item.label);
      if (of !== null) {
        node.append(' ', h('span', { class: css('catalogTopic') }, of));
      }
      this._nodes.set(node, item);
      group.append(node);
    }
    this._items.replaceChildren(...groups.values());
    setShown(this._items, shown.length > 0);
    setShown(this._none, shown.length === 0 && this._isLoaded);
    this._mark();
  }

  /** The chosen one is selected; it, or the first one, is in the order of Tab. */
  private _mark(): void {
    let stop: HTMLElement | null = null;
    for (const [node, { kind, name }] of this._nodes) {
      const isChosen = kind === this._chosen?.kind && name === this._chosen.name;
      node.setAttribute('aria-selected', String(isChosen));
      node.tabIndex = -1;
      stop = isChosen ? node : (stop ?? node);
    }
    if (stop !== null) {
      stop.tabIndex = 0;
    }
  }

  private _pick(target: EventTarget | null): void {
    const node = target instanceof HTMLElement ? target.closest<HTMLElement>('[role=option]') : null;
    const item = node === null ? undefined : this._nodes.get(node);
    if (item !== undefined) {
      this._open(item);
    }
  }

  private _open(item: IItem): void {
    const { api, trans } = this._site;
    this._chosen = item;
    this._mark();
    const place = h('div');
    this._detail.replaceChildren(place); // an answer that comes late has no place any more
    this._detail.scrollTop = 0;
    void fill(place, async () =>
      item.kind === 'table'
        ? tableDetail(await api.table(item.name), this._site)
        : subjectDetail(await api.subject(item.name), trans)
    );
  }

  private _key(event: KeyboardEvent): void {
    const all = [...this._nodes.keys()];
    const at = all.indexOf(event.target as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (next !== undefined) {
      all[next]?.focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      this._pick(event.target);
    } else {
      return;
    }
    event.preventDefault();
  }

  private readonly _filter: HTMLInputElement;
  private readonly _items = h('div', { role: 'listbox', class: css('catalogItems') });
  private readonly _troubles = h('div', { role: 'status' });
  private readonly _none = h('p', { class: css('quiet'), hidden: true });
  private readonly _detail = h('div', { class: css('catalogDetail'), role: 'region', tabindex: '0' });
  private readonly _nodes = new Map<HTMLElement, IItem>();
  private _all: readonly IItem[] = [];
  private _chosen: IItem | null = null;
}
