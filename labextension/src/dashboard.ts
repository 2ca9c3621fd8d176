/** The dashboard in a tab: a frame on the server's own, proxied page. */
import type { IThemeManager } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { IFrame } from '@jupyterlab/ui-components';
import type { TopicApi } from './api';
import { css, h, setShown, setText, textButton } from './dom';
import { dashboardIcon } from './icons';
import { panesOf } from './panes';

/** What the page may do: run its own scripts, use cookies, save files. Nothing in it can leave the frame. */
const SANDBOX: IFrame.SandboxExceptions[] = [
  'allow-scripts',
  'allow-same-origin',
  'allow-downloads',
  'allow-popups',
  'allow-forms'
];

const LOOK_EVERY_MS = 100;

/** For all topics, or for one; whole, or one of its panes. Follows the theme by reloading the page. */
export class DashboardFrame extends IFrame {
  constructor(
    /** Null for the page of all topics. */
    readonly topic: string | null,
    /** Null for the whole page. */
    readonly pane: string | null,
    private readonly _api: TopicApi,
    private readonly _themes: IThemeManager | null,
    private readonly _trans: TranslationBundle
  ) {
    super({ sandbox: SANDBOX, referrerPolicy: 'same-origin', loading: 'eager' });
    this.id = ['tabletopic-dashboard', topic, pane && `pane=${pane}`].filter(part => part !== null).join('-');
    this.addClass('jp-TableTopic-dashboard');
    this.title.icon = dashboardIcon;
    const part = pane === null ? undefined : panesOf(topic, _trans).get(pane);
    const whole = topic === null ? _trans.__('Table topics') : _trans.__('%1 dashboard', topic);
    this.title.label = part === undefined ? whole : _trans.__('%1 · %2', topic ?? _trans.__('All topics'), part);
    const about = topic === null ? _trans.__('Dashboard of all table topics') : _trans.__('Dashboard of %1', topic);
    this.title.caption = part === undefined ? about : _trans.__('%1: %2', about, part);
    this.title.closable = true;
    this._cover.append(this._words, textButton(_trans.__('Try again'), () => this._load()));
    this.node.append(this._cover);
    this._frame.title = this.title.caption;
    this._frame.addEventListener('load', () => this._loaded());
    _themes?.themeChanged.connect(this._themeChanged, this);
    this._load();
  }

  override dispose(): void {
    this._themes?.themeChanged.disconnect(this._themeChanged, this);
    window.clearInterval(this._looking);
    super.dispose();
  }

  private get _frame(): HTMLIFrameElement {
    return this.node.querySelector('iframe') as HTMLIFrameElement;
  }

  private get _dark(): boolean {
    const theme = this._themes?.theme ?? null;
    return theme !== null && this._themes?.isLight(theme) === false;
  }

  private _load(): void {
    this._shownDark = this._dark;
    this._tell(this._trans.__('Starting the dashboard…'), false);
    this.url = this._api.dashboardUrl(this.topic, this.pane, this._shownDark);
    window.clearInterval(this._looking);
    this._looking = window.setInterval(() => this._look(), LOOK_EVERY_MS);
  }

  /** Show the page as soon as it has something to read: `load` waits for its scripts, which come later. */
  private _look(): void {
    const shown = this._frame.contentDocument;
    // Until the new page arrives, the previous one stays: it has another theme, or nothing to read.
    const theme = new URLSearchParams(shown?.location.search).get('theme');
    if (theme === (this._shownDark ? 'dark' : 'default') && shown?.querySelector('main')) {
      window.clearInterval(this._looking);
      setShown(this._cover, false);
    }
  }

  private _loaded(): void {
    window.clearInterval(this._looking);
    const status = this._status();
    if (status < 400) {
      setShown(this._cover, false);
    } else {
      const text = this._trans.__('The dashboard did not start (%1). See the Jupyter server’s log.', status);
      this._tell(text, true);
    }
  }

  /** The HTTP status of the page; 200 if the browser does not report it. */
  private _status(): number {
    const window = this._frame.contentWindow;
    // Newer than TypeScript's type definitions for browsers.
    const entry: (PerformanceEntry & { readonly responseStatus?: number }) | undefined =
      window?.performance.getEntriesByType('navigation')[0];
    return entry?.responseStatus ?? 200;
  }

  private _tell(text: string, failed: boolean): void {
    setText(this._words, text);
    this._cover.dataset.failed = String(failed);
    setShown(this._cover, true);
  }

  private _themeChanged(): void {
    if (this._dark !== this._shownDark) {
      this._load();
    }
  }

  private readonly _words = h('p');
  private readonly _cover = h('div', { class: css('cover'), role: 'status' });
  private _shownDark = false;
  private _looking = 0;
}
