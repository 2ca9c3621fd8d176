/** The servers that the settings name, a section for each, and further catalogs. */
import { InputDialog, Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { reasonOf } from '../api';
import { fill } from '../catalog/parts';
import { css, h, textButton, words } from '../dom';
import { LoadedView } from '../lazypage';
import type { ISaved, ServersApi, Typed } from './protocol';
import { ServerSection } from './section';
import type { ISectionSite } from './section';

export class ServersView extends LoadedView implements ISectionSite {
  constructor(
    readonly api: ServersApi,
    readonly trans: TranslationBundle
  ) {
    super();
    this.node.append(this._place);
  }

  readonly node = h('div', { class: `jp-TableTopic-settings ${css('servers')}` });

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
      const { file, version, sections } = await this.api.servers();
      this._version = version;
      const about = version
        ? trans.__('From `%1`, which keeps its comments. Variables and other settings count as `tabletopic config` in a terminal shows.', file)
        : trans.__('There is no settings file yet: Save writes `%1`.', file);
      const list = h('div', { class: css('serverList') }, ...sections.map(each => new ServerSection(each, this).node));
      const buttons = h('div', { class: css('serverButtons') },
        textButton(trans.__('Add a catalog…'), () => void this._add(list)),
        textButton(trans.__('Reload'), () => void this.load())
      );
      return [h('h2', {}, trans.__('Servers')), h('p', { class: css('help') }, ...words(about)), list, buttons];
    });
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
