/** The servers that the settings name, a section for each, and further catalogs. */
import { InputDialog, Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { reasonOf } from '../api';
import { choice, fill } from '../catalog/parts';
import { css, h, textButton, words } from '../dom';
import { LoadedView } from '../lazypage';
import type { ISaved, IServers, ServersApi, Typed } from './protocol';
import { ServerSection } from './section';
import type { ISectionSite } from './section';

export class ServersView extends LoadedView implements ISectionSite {
  constructor(
    readonly api: ServersApi,
    private readonly _use: (profile: string) => void,
    readonly trans: TranslationBundle
  ) {
    super();
    this.node.append(this._place);
  }

  readonly node = h('div', { class: `jp-TableTopic-settings ${css('servers')}` });

  isUsed = true;

  focus(): void {
    this.node.querySelector<HTMLElement>('select, button')?.focus();
  }

  async save(section: string, typed: Typed, secretsToo: boolean): Promise<ISaved> {
    const saved = await this.api.save(section, typed, this._version, secretsToo);
    this._version = saved.version;
    return saved;
  }

  /** Forgets what was typed. */
  protected load(): Promise<void> {
    return fill(this._place, async () => {
      const { trans } = this;
      const answer = await this.api.servers();
      const { file, version, sections } = answer;
      this._version = version;
      this.isUsed = answer.profile === answer.used_profile;
      const about = version
        ? trans.__('From `%1`, which keeps its comments. Variables and other settings count as `tabletopic config` in a terminal shows.', file)
        : trans.__('There is no settings file yet: Save writes `%1`.', file);
      const list = h('div', { class: css('serverList') }, ...sections.map(each => new ServerSection(each, this).node));
      const buttons = h('div', { class: css('serverButtons') },
        textButton(trans.__('Add a catalog…'), () => void this._add(list)),
        textButton(trans.__('Reload'), () => void this.load())
      );
      return [h('h2', {}, trans.__('Servers')), this._profiles(answer), h('p', { class: css('help') }, ...words(about)), list, buttons];
    });
  }

  /** Whose servers these are: another one, a new one, or this one for JupyterLab. */
  private _profiles({ profile, used_profile: used, profiles }: IServers): HTMLElement {
    const { trans } = this;
    const label = trans.__('Profile');
    const names = profiles.map(name => (name === used ? trans.__('%1 (in use)', name) : name));
    const select = choice(label, names, profiles.indexOf(profile), () => void this._look(profiles[select.selectedIndex] ?? null));
    const use = textButton(trans.__('Use in JupyterLab…'), () => this._use(profile));
    use.disabled = profile === used;
    const make = textButton(trans.__('New profile…'), () => void this._make());
    const field = h('div', { class: css('field') }, h('span', { class: css('label'), 'aria-hidden': 'true' }, label), select);
    return h('div', { class: css('serverProfile') }, field, h('div', { class: css('serverButtons') }, use, make));
  }

  private async _look(profile: string | null): Promise<void> {
    this.api.profile = profile;
    await this.load();
    this.focus();
  }

  private async _make(): Promise<void> {
    const { trans } = this;
    const label = trans.__('Its name, such as staging');
    const answer = await InputDialog.getText({ title: trans.__('New profile'), label });
    const name = answer.button.accept ? answer.value?.trim() : '';
    if (!name) {
      return;
    }
    try {
      await this.api.addProfile(name);
      await this._look(name);
    } catch (error) {
      Notification.error(reasonOf(error), { autoClose: false });
    }
  }

  private async _add(list: HTMLElement): Promise<void> {
    const { trans } = this;
    const answer = await InputDialog.getText({ title: trans.__('Add a catalog'), label: trans.__('Its name in SQL') });
    const name = answer.button.accept ? answer.value?.trim() : '';
    if (!name) {
      return;
    }
    try {
      const section = new ServerSection(await this.api.further(name), this);
      const there = document.getElementById(section.id)?.closest('section');
      if (there == null) {
        list.append(section.node);
      }
      (there ?? section.node).querySelector('select')?.focus();
    } catch (error) {
      Notification.error(reasonOf(error), { autoClose: false });
    }
  }

  private readonly _place = h('div');
  private _version = '';
}
