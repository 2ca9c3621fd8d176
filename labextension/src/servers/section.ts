/** A server: how it is reached, a test of what is typed, and the way into the settings file. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { reasonOf } from '../api';
import { choice } from '../catalog/parts';
import { Chip } from '../chip';
import { css, h, setBusy, textButton, words } from '../dom';
import { PropertyFields } from './fields';
import type { ICheck, ISaved, ISection, IWay, ServersApi, Typed } from './protocol';

const TONES = { ok: 'good', warn: 'warn', fail: 'bad' } as const;

/** What a section needs of its page. */
export interface ISectionSite {
  readonly api: ServersApi;
  readonly trans: TranslationBundle;
  /** Whether JupyterLab uses this file. */
  readonly isUsed: boolean;
  /** Write it; the page knows which version of the file it shows. */
  save(section: string, typed: Typed, secretsToo: boolean): Promise<ISaved>;
}

export class ServerSection {
  constructor(
    private _section: ISection,
    private readonly _site: ISectionSite
  ) {
    const { trans } = _site;
    this.id = `jp-TableTopic-server-${_section.section}`;
    const label = trans.__('Write typed secrets into the file, which only you can read');
    const secrets = h('label', { class: css('serverButtons') }, this._secretsToo, label);
    const buttons = h('div', { class: css('serverButtons') }, this._test, this._save);
    const title = h('h3', { id: this.id }, `${_section.title} `, h('code', {}, `[${_section.section}]`));
    this.node = h('section', { class: css('server'), 'aria-labelledby': this.id },
      title, this._choices, this._place, secrets, buttons, this._answer
    );
    this._show(_section);
  }

  readonly node: HTMLElement;
  /** Of its heading. */
  readonly id: string;

  private _show(section: ISection): void {
    this._section = section;
    this._way = section.way;
    this._then = section.storage;
    this._drafts.clear();
    this._fields = null;
    this._secretsToo.checked = false;
    this._draw();
  }

  /** The ways chosen, with what has to be typed for these. */
  private _draw(): void {
    const { trans } = this._site;
    for (const [key, value] of this._fields?.drafts() ?? []) {
      this._drafts.set(key, value);
    }
    const { ways, section } = this._section;
    const way = this._way === null ? undefined : ways[this._way];
    const pickers = [this._picker(trans.__('How it is reached'), `${section}-way`, ways, this._way, at => {
      this._way = at;
      this._then = at === null || ways[at]?.then.length === 0 ? null : 0;
    })];
    const chosen = way === undefined ? [] : [way];
    if (way !== undefined && way.then.length > 0) {
      pickers.push(this._picker(way.then_text, `${section}-then`, way.then, this._then, at => (this._then = at)));
      const then = this._then === null ? undefined : way.then[this._then];
      chosen.push(...(then === undefined ? [] : [then]));
    }
    this._fields = new PropertyFields(this._section, chosen, this._drafts, trans);
    this._choices.replaceChildren(...pickers);
    this._place.replaceChildren(...this._fields.nodes);
  }

  /** Ways, and behind them none: the properties as they are. */
  private _picker(label: string, name: string, ways: readonly IWay[], now: number | null, set: (at: number | null) => void): HTMLElement {
    const texts = [...ways.map(way => way.text.replaceAll('`', '')), this._site.trans.__('In another way: by its properties')];
    const select = choice(label, texts, now ?? ways.length, () => {
      set(select.selectedIndex < ways.length ? select.selectedIndex : null);
      this._draw();
      this.node.querySelector<HTMLElement>(`[data-picker="${name}"]`)?.focus();
    });
    select.dataset.picker = name;
    return h('div', { class: css('field') }, h('span', { class: css('label'), 'aria-hidden': 'true' }, label), select);
  }

  private async _run(button: HTMLButtonElement, work: (typed: Typed) => Promise<Node[]>): Promise<void> {
    const typed = this._fields?.typed() ?? null;
    if (typed === null) {
      this._place.querySelector<HTMLElement>('[aria-invalid]')?.focus();
      return;
    }
    const { trans } = this._site;
    setBusy(button, true);
    this._answer.replaceChildren(h('p', { class: css('quiet') }, trans.__('One moment…')));
    try {
      this._answer.replaceChildren(...(await work(typed)));
    } catch (error) {
      this._answer.replaceChildren(h('p', { class: css('error') }, ...words(reasonOf(error))));
    }
    setBusy(button, false);
  }

  private async _tested(typed: Typed): Promise<Node[]> {
    const checks = await this._site.api.test(this._section.section, typed);
    return checks.map(check => this._check(check));
  }

  private _check({ name, status, detail, remedy }: ICheck): HTMLElement {
    const chip = new Chip();
    chip.update({ tone: TONES[status], text: status });
    const next = remedy ? h('div', { class: css('quiet') }, ...words(remedy)) : null;
    return h('div', { class: css('serverCheck') }, chip.node, h('div', {}, h('strong', {}, name), ' ', ...words(detail), next));
  }

  private async _saved(typed: Typed): Promise<Node[]> {
    const { trans } = this._site;
    const { section, variables } = await this._site.save(this._section.section, typed, this._secretsToo.checked);
    this._show(section);
    const used = trans.__('Saved. JupyterLab uses it from now on; hosts, dashboards and notebooks that run read it at their next start.');
    const lines = [this._site.isUsed ? used : trans.__('Saved. JupyterLab uses another profile.')];
    if (variables.length > 0) {
      const names = variables.map(each => `\`${each}\``).join(', ');
      lines.push(trans.__('Not written: set %1 where JupyterLab, hosts and commands are started.', names));
    }
    return lines.map(text => h('p', {}, ...words(text)));
  }

  private readonly _choices = h('div');
  private readonly _place = h('div');
  private readonly _secretsToo = h('input', { type: 'checkbox' });
  private readonly _answer = h('div', { role: 'status', class: css('serverAnswer') });
  private readonly _test = textButton(this._site.trans.__('Test connection'), () => void this._run(this._test, typed => this._tested(typed)));
  private readonly _save = textButton(this._site.trans.__('Save'), () => void this._run(this._save, typed => this._saved(typed)), true);
  private readonly _drafts = new Map<string, string>();
  private _fields: PropertyFields | null = null;
  private _way: number | null = null;
  private _then: number | null = null;
}
