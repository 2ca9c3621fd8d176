/** The last events of a topic: a line each, and one for commits that follow each other. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IEvent } from './api';
import { css, h } from './dom';
import { duration, number } from './words';

/** Displayed lines. Staged batches have none: each is committed a moment later, and that is displayed. */
const LINES = 12;
/** Events to ask for, so that commits leave room for what happened before them. */
export const ASKED = 200;
/** From this many commits on, one line stands for all of them. */
const FOLD_FROM = 3;

/** Draws events; what a reader has unfolded stays so when newer events arrive. */
export class EventList {
  constructor(private readonly _trans: TranslationBundle) {}

  /** The list of these events, newest first. */
  draw(events: readonly IEvent[]): HTMLElement {
    const runs = runsOf(events.filter(event => event.type !== 'FilesStaged'));
    if (runs.length === 0) {
      return h('p', { class: css('quiet') }, this._trans.__('No events yet.'));
    }
    const items = runs.flatMap((run, index) => this._items(run, runs[index + 1]?.[0]?.at_ms ?? 0));
    return h('ul', { class: css('events') }, ...items.slice(0, LINES));
  }

  /** ``since``: the time of the event before the run, which stays the same while commits are added to it. */
  private _items(run: readonly IEvent[], since: number): HTMLElement[] {
    const [newest] = run;
    const items = run.map(event => this._item(event));
    if (newest === undefined || run.length < FOLD_FROM) {
      return items;
    }
    const rows = run.reduce((sum, event) => sum + Number(event.rows ?? 0), 0);
    const seconds = (newest.at_ms - (run.at(-1)?.at_ms ?? 0)) / 1000;
    const text = this._trans._n(
      '%3 commits, %2 row in %4',
      '%3 commits, %2 rows in %4',
      rows,
      number(rows),
      number(run.length),
      duration(seconds)
    );
    const fold = h(
      'details',
      {},
      h('summary', { title: new Date(newest.at_ms).toLocaleString() }, sign(newest), text),
      h('ul', { class: css('events') }, ...items)
    );
    fold.open = this._open.has(since);
    fold.addEventListener('toggle', () => (fold.open ? this._open.add(since) : this._open.delete(since)));
    return [h('li', { class: css('run') }, fold)];
  }

  private _item(event: IEvent): HTMLElement {
    return h('li', {}, sign(event), timeOf(event), h('span', {}, event.text));
  }

  private readonly _open = new Set<number>();
}

/** Neighbouring commits together, any other event by itself. */
function runsOf(events: readonly IEvent[]): IEvent[][] {
  const runs: IEvent[][] = [];
  for (const event of events) {
    const last = runs.at(-1);
    if (event.type === 'Committed' && last?.[0]?.type === 'Committed') {
      last.push(event);
    } else {
      runs.push([event]);
    }
  }
  return runs;
}

function sign(event: IEvent): HTMLElement {
  return h('span', { class: css('sign'), 'data-tone': event.tone, 'aria-hidden': 'true' });
}

function timeOf(event: IEvent): HTMLElement {
  const at = new Date(event.at_ms);
  return h('time', { datetime: at.toISOString(), title: at.toLocaleString() }, at.toLocaleTimeString());
}
