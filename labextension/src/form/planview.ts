/** The plan beside the form: what enabling with these settings would do. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IPlan, IPlanColumn } from '../api';
import { css, h, words } from '../dom';
import type { IView } from '../dom';
import { momentText } from './units';

/** The plan, or why there is none. */
export type PlanData = { readonly plan: IPlan } | { readonly problem: string } | null;

/** Redrawn with each plan: it changes when the user has changed a setting. */
export class PlanView implements IView<PlanData> {
  constructor(private readonly _trans: TranslationBundle) {
    this.node = h('section', { class: css('plan'), 'aria-live': 'polite', 'aria-label': _trans.__('Plan') });
  }

  readonly node: HTMLElement;

  update(data: PlanData): void {
    const heading = h('h3', {}, this._trans.__('What this does'));
    if (data === null) {
      this.node.replaceChildren(heading, h('p', { class: css('quiet') }, this._trans.__('Planning…')));
    } else if ('problem' in data) {
      this.node.replaceChildren(heading, this._refusals([data.problem]));
    } else {
      this.node.replaceChildren(heading, ...this._plan(data.plan));
    }
  }

  private _plan(plan: IPlan): HTMLElement[] {
    const parts: HTMLElement[] = [];
    if (plan.refused.length > 0) {
      parts.push(this._refusals(plan.refused));
    }
    parts.push(this._facts(plan));
    if (plan.notes.length > 0) {
      parts.push(h('ul', { class: css('notes') }, ...plan.notes.map(note => h('li', {}, ...words(note)))));
    }
    if (plan.columns.length > 0) {
      parts.push(this._columns(plan.columns));
    }
    return parts;
  }

  private _refusals(reasons: readonly string[]): HTMLElement {
    return h(
      'div',
      { class: css('refused'), role: 'alert' },
      h('strong', {}, this._trans.__('This is not possible; nothing has changed.')),
      h('ul', {}, ...reasons.map(reason => h('li', {}, ...words(reason))))
    );
  }

  private _facts(plan: IPlan): HTMLElement {
    const trans = this._trans;
    const table = plan.creates ? trans.__('%1 (new)', plan.table) : trans.__('%1 (exists)', plan.table);
    const facts: [string, string][] = [
      [trans.__('Table'), table],
      [trans.__('Partitioned by'), plan.partition_by.join(', ') || trans.__('nothing')]
    ];
    if (plan.sort_by.length > 0) {
      facts.push([trans.__('Sorted by'), plan.sort_by.join(', ')]);
    }
    if (plan.creates) {
      facts.push([trans.__('Starts at'), typeof plan.start === 'number' ? momentText(plan.start) : plan.start]);
    }
    return h('dl', { class: css('facts') }, ...facts.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
  }

  private _columns(columns: readonly IPlanColumn[]): HTMLElement {
    const trans = this._trans;
    const head = [trans.__('Column'), trans.__('Type'), trans.__('Change')].map(text => h('th', { scope: 'col' }, text));
    const rows = columns.map(column =>
      h(
        'tr',
        { title: column.doc },
        h('td', {}, column.name),
        h('td', { class: css('columnType') }, column.type + (column.required ? ` · ${trans.__('required')}` : '')),
        h('td', {}, h('span', { class: css('change'), 'data-change': column.change }, this._change(column.change)))
      )
    );
    return h('table', {}, h('thead', {}, h('tr', {}, ...head)), h('tbody', {}, ...rows));
  }

  private _change(change: IPlanColumn['change']): string {
    switch (change) {
      case 'new':
        return this._trans.__('new');
      case 'kept':
        return this._trans.__('kept');
      case 'relaxed':
        return this._trans.__('becomes optional');
      case 'widened':
        return this._trans.__('widened');
      case 'renamed':
        return this._trans.__('renamed');
    }
  }
}
