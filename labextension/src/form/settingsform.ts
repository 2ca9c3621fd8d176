/** The settings of one topic, with the plan of their effect before it happens. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { settingsIcon } from '@jupyterlab/ui-components';
import type { JSONValue } from '@lumino/coreutils';
import type { Message } from '@lumino/messaging';
import { Debouncer } from '@lumino/polling';
import { Widget } from '@lumino/widgets';
import { reasonOf } from '../api';
import type { ISettingsSchema, Settings } from '../api';
import { css, h, setShown, setText, textButton } from '../dom';
import type { WorkbenchModel } from '../model';
import { makeField } from './fields';
import type { IField } from './fields';
import { PlanView } from './planview';

/** How long the user must pause typing before a plan is requested. */
const PLAN_AFTER_MS = 400;
/** The most common settings; the others are folded. */
const COMMON = ['commit_interval_ms', 'partition_by', 'sort_by', 'start', 'namespace', 'table'];

/** A page of the main area; it closes itself when its settings are in effect. */
export class SettingsForm extends Widget {
  constructor(
    readonly topic: string,
    private readonly _model: WorkbenchModel,
    private readonly _trans: TranslationBundle,
    private readonly _done: () => void
  ) {
    super();
    this.addClass('jp-TableTopic-settings');
    this.title.label = _trans.__('%1 settings', topic);
    this.title.caption = _trans.__('Settings of the table topic %1', topic);
    this.title.icon = settingsIcon;
    this.title.closable = true;
    this._planView = new PlanView(_trans);
    this._apply = textButton(_trans.__('Enable'), () => void this._submit(), true);
    this._apply.disabled = true;
    const cancel = textButton(_trans.__('Cancel'), _done);
    this._form = h(
      'form',
      { class: css('form'), 'aria-label': this.title.caption },
      this._common,
      this._more,
      h('div', { class: css('formEnd') }, this._apply, cancel),
      this._problem
    );
    this._form.addEventListener('submit', event => event.preventDefault());
    this._form.addEventListener('input', () => void this._planLater.invoke());
    setShown(this._problem, false);
    setShown(this._more, false);
    this.node.append(h('h2', {}, topic), h('div', { class: css('columnsOfForm') }, this._form, this._planView.node));
    void this._load();
  }

  override dispose(): void {
    this._planLater.dispose();
    super.dispose();
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this._form.querySelector<HTMLElement>('input, select, textarea')?.focus();
  }

  private async _load(): Promise<void> {
    this._planView.update(null);
    try {
      const schema = await this._model.api.settingsSchema();
      const on = this._model.row(this.topic)?.enabled === true;
      const now = on ? ((await this._model.api.detail(this.topic)).settings ?? {}) : {};
      if (!this.isDisposed) {
        this._build(schema, now, on);
        await this._plan();
      }
    } catch (error) {
      this._complain(reasonOf(error));
    }
  }

  private _build(schema: ISettingsSchema, now: Settings, on: boolean): void {
    this._enabled = on;
    setText(this._apply, on ? this._trans.__('Apply') : this._trans.__('Enable'));
    for (const name of Object.keys(schema.properties)) {
      const field = makeField(this.topic, name, schema, this._trans);
      if (field !== null) {
        const initial = now[name] ?? schema.properties[name]?.default ?? null;
        field.set(initial);
        this._initial.set(name, field.value());
        this._fields.push(field);
      }
    }
    this._given = now;
    const place = (field: IField) => (COMMON.includes(field.name) ? this._common : this._moreFields);
    const rank = (field: IField) => (COMMON.indexOf(field.name) + COMMON.length + 1) % (COMMON.length + 1);
    for (const field of [...this._fields].sort((one, other) => rank(one) - rank(other))) {
      place(field).append(field.node);
    }
    setShown(this._more, this._moreFields.childElementCount > 0);
  }

  /** Changes since the form was opened; for an enabled topic, all of its settings. Null: see the fields. */
  private _settings(): Settings | null {
    const settings: Settings = this._enabled ? { ...this._given } : {};
    let fine = true;
    for (const field of this._fields) {
      field.complain(null);
      try {
        const value = field.value();
        if (!same(value, this._initial.get(field.name) ?? null)) {
          settings[field.name] = value;
        }
      } catch (error) {
        field.complain(reasonOf(error));
        fine = false;
      }
    }
    return fine ? settings : null;
  }

  private async _plan(): Promise<void> {
    const settings = this._settings();
    const turn = ++this._turn;
    this._complain(null);
    this._apply.disabled = true;
    if (settings === null) {
      return;
    }
    try {
      const plan = await this._model.api.plan(this.topic, settings);
      if (turn === this._turn && !this.isDisposed) {
        this._planView.update({ plan });
        this._apply.disabled = plan.refused.length > 0;
      }
    } catch (error) {
      if (turn === this._turn && !this.isDisposed) {
        this._planView.update({ problem: this._blame(reasonOf(error)) });
      }
    }
  }

  private async _submit(): Promise<void> {
    const settings = this._settings();
    if (settings === null) {
      return;
    }
    this._apply.disabled = true;
    if (await this._model.enable(this.topic, settings)) {
      this._done();
    } else if (!this.isDisposed) {
      this._complain(this._blame(this._model.problem(this.topic) ?? ''));
      this._apply.disabled = false;
    }
  }

  /** Also show "name: what is wrong" at the field with that name. */
  private _blame(message: string): string {
    const names = this._fields.map(field => field.name).join('|');
    for (const part of message.split(new RegExp(`; (?=(?:${names})[.:])`))) {
      const name = /^\w+/.exec(part)?.[0];
      const colon = part.indexOf(': ');
      if (colon > 0) {
        this._fields.find(field => field.name === name)?.complain(part.slice(colon + 2));
      }
    }
    return message;
  }

  private _complain(message: string | null): void {
    setText(this._problem, message ?? '');
    setShown(this._problem, message !== null);
  }

  private readonly _common = h('div');
  private readonly _moreFields = h('div');
  private readonly _more = h('details', {}, h('summary', {}, this._trans.__('More settings')), this._moreFields);
  private readonly _problem = h('p', { class: css('error'), role: 'alert' });
  private readonly _form: HTMLFormElement;
  private readonly _apply: HTMLButtonElement;
  private readonly _planView: PlanView;
  private readonly _planLater = new Debouncer(() => this._plan(), PLAN_AFTER_MS);
  private readonly _fields: IField[] = [];
  private readonly _initial = new Map<string, JSONValue>();
  private _given: Settings = {};
  private _enabled = false;
  private _turn = 0;
}

function same(one: JSONValue, other: JSONValue): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
