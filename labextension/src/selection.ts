/** Several topics at once: which are selected, and what can be done with all of them, after one look at the plan. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { reasonOf } from './api';
import type { IRow } from './api';
import { css, h, setBusy, setShown, setText, textButton } from './dom';
import type { WorkbenchModel } from './model';

/** Requests under way at once. */
const AT_ONCE = 4;

/** What can be done with several topics. */
interface IBulkAction {
  readonly label: string;
  /** Above the list of topics. */
  readonly title: string;
  readonly fits: (row: IRow) => boolean;
  readonly run: (topic: string) => Promise<boolean>;
  /** What becomes of a topic; throws why nothing would. */
  readonly plan: (topic: string) => Promise<string>;
}

/** The selected topics, the button that begins the selection, and the bar with the actions. */
export class Selection {
  constructor(
    private readonly _model: WorkbenchModel,
    private readonly _trans: TranslationBundle
  ) {
    this._begin = textButton(_trans.__('Select several…'), () => this._open(true));
    this._all = h('input', { type: 'checkbox', 'aria-label': _trans.__('Select all that are shown') });
    this._all.addEventListener('change', () => this._selectAll(this._all.checked));
    this._actions = actionsOf(_model, _trans);
    this._buttons = this._actions.map(action => textButton(action.label, () => void this._run(action)));
    const done = textButton(_trans.__('Done'), () => this._open(false));
    this._bar = h(
      'div',
      { class: css('selection'), role: 'group', 'aria-label': _trans.__('Selected topics') },
      h('label', {}, this._all, this._count),
      ...this._buttons,
      done
    );
    this._bar.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        this._open(false);
      }
    });
    this.node = h('div', {}, this._begin, this._bar);
  }

  readonly node: HTMLElement;

  /** Whether rows show a box to select them. */
  get isOpen(): boolean {
    return this._isOpen;
  }

  has(topic: string): boolean {
    return this._selected.has(topic);
  }

  /** Select a topic or not; with `range` all that are shown between the last one and this. */
  select(topic: string, on: boolean, range: boolean): void {
    const names = this._shown.map(row => row.topic);
    const [last, here] = [names.indexOf(this._last), names.indexOf(topic)];
    const [from, to] = range && last >= 0 && here >= 0 ? [Math.min(last, here), Math.max(last, here)] : [here, here];
    for (const name of names.slice(from, to + 1)) {
      this._set(name, on);
    }
    this._last = topic;
    this._model.changed.emit();
  }

  /** The topics on display; what is out of sight is not selected. */
  update(shown: readonly IRow[]): void {
    this._shown = shown;
    const names = new Set(shown.map(row => row.topic));
    for (const name of [...this._selected].filter(selected => !names.has(selected))) {
      this._selected.delete(name);
    }
    setShown(this._begin, !this._isOpen && shown.length > 1);
    setShown(this._bar, this._isOpen);
    const count = this._selected.size;
    setText(this._count, this._trans._n('%1 selected', '%1 selected', count));
    this._all.checked = count > 0 && count === shown.length;
    this._all.indeterminate = count > 0 && count < shown.length;
    this._actions.forEach((action, index) => {
      const button = this._buttons[index]!;
      const fitting = this._fitting(action).length;
      setText(button, fitting > 0 ? `${action.label} (${fitting})` : action.label);
      setBusy(button, fitting === 0 || this._isBusy);
    });
  }

  private _fitting(action: IBulkAction): readonly string[] {
    return this._shown.filter(row => this._selected.has(row.topic) && action.fits(row)).map(row => row.topic);
  }

  private _set(topic: string, on: boolean): void {
    if (on) {
      this._selected.add(topic);
    } else {
      this._selected.delete(topic);
    }
  }

  private _selectAll(on: boolean): void {
    for (const row of this._shown) {
      this._set(row.topic, on);
    }
    this._model.changed.emit();
  }

  private _open(open: boolean): void {
    this._isOpen = open;
    this._selected.clear();
    this._last = '';
    setShown(this._begin, !open);
    setShown(this._bar, open);
    (open ? this._all : this._begin).focus(); // the button that was pressed is gone
    this._model.changed.emit();
  }

  /** Show what becomes of each topic, and do it to those of which something becomes. */
  private async _run(action: IBulkAction): Promise<void> {
    const topics = this._fitting(action);
    this._busy(true);
    try {
      const plans = await inTurn(topics, async topic => {
        try {
          return { topic, text: await action.plan(topic), refused: false };
        } catch (error) {
          return { topic, text: reasonOf(error), refused: true };
        }
      });
      const able = plans.filter(plan => !plan.refused).map(plan => plan.topic);
      const items = plans.map(({ topic, text, refused }) =>
        h('li', refused ? { class: css('refused') } : {}, h('strong', {}, topic), ` ${text}`)
      );
      const body = new Widget({ node: h('ul', { class: css('bulkPlan'), tabindex: '0' }, ...items) });
      const cancel = Dialog.cancelButton({ label: this._trans.__('Cancel') });
      const accept = Dialog.okButton({ label: `${action.label} (${able.length})` });
      const buttons = able.length > 0 ? [cancel, accept] : [cancel];
      const { button } = await showDialog({ title: action.title, body, buttons });
      if (!button.accept) {
        return;
      }
      const done = await inTurn(able, action.run);
      const failed = able.filter((_, index) => !done[index]);
      if (failed.length > 0) {
        Notification.error(
          this._trans.__('%1 of %2 topics failed: %3. The row of each says why.', failed.length, able.length, failed.join(', ')),
          { autoClose: false }
        );
      }
    } finally {
      this._busy(false);
    }
  }

  private _busy(busy: boolean): void {
    this._isBusy = busy;
    this._model.changed.emit();
  }

  private readonly _begin: HTMLButtonElement;
  private readonly _bar: HTMLElement;
  private readonly _all: HTMLInputElement;
  private readonly _count = h('span');
  private readonly _actions: readonly IBulkAction[];
  private readonly _buttons: readonly HTMLButtonElement[];
  private readonly _selected = new Set<string>();
  private _shown: readonly IRow[] = [];
  private _last = '';
  private _isOpen = false;
  private _isBusy = false;
}

function actionsOf(model: WorkbenchModel, trans: TranslationBundle): readonly IBulkAction[] {
  const toTable = async (topic: string) => {
    const plan = await model.api.plan(topic, {});
    if (plan.refused.length > 0) {
      throw new Error(plan.refused.join('; '));
    }
    const count = plan.columns.length;
    const table = plan.creates
      ? trans._n('→ %2, a new table with %1 column', '→ %2, a new table with %1 columns', count, plan.table)
      : trans.__('→ %1, which goes on where it ended', plan.table);
    return [table, ...plan.warnings].join('; ');
  };
  return [
    {
      label: trans.__('Enable'),
      title: trans.__('Enable several topics'),
      fits: row => !row.enabled,
      run: topic => model.enable(topic),
      plan: toTable
    },
    {
      label: trans.__('Pause'),
      title: trans.__('Pause several topics'),
      fits: row => row.enabled && row.run !== 'paused',
      run: topic => model.pause(topic),
      plan: async () => trans.__('commits what is staged, and pauses')
    },
    {
      label: trans.__('Resume'),
      title: trans.__('Resume several topics'),
      fits: row => row.enabled && (row.run === 'paused' || row.state === 'failed'),
      run: topic => model.resume(topic),
      plan: async () => trans.__('goes on where its table ends')
    }
  ];
}

/** The results of `run` for each, in order, a few at a time. */
async function inTurn<T>(topics: readonly string[], run: (topic: string) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const work = async () => {
    while (next < topics.length) {
      const at = next++;
      results[at] = await run(topics[at]!);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}
