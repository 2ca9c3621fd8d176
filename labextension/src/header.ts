/** The sidebar's header: its tools, who runs the topics, and general errors. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, ellipsesIcon, refreshIcon } from '@jupyterlab/ui-components';
import type { IHostState, IOverview } from './api';
import { Chip } from './chip';
import { css, h, iconButton, setBusy, setShown, setText, setWords, textButton } from './dom';
import type { IView } from './dom';
import { dashboardIcon, helpIcon } from './icons';
import { shownProfile } from './profiles';
import type { IWord } from './words';

/** The header's content. */
export interface IHeaderData {
  readonly overview: IOverview | null;
  readonly trouble: string | null;
  readonly pending: string | null;
  readonly problem: string | null;
}

/** Actions in the header. */
export interface IHeaderActions {
  refresh(): void;
  dashboard(): void;
  manual(): void;
  chooseProfile(): void;
  menu(at: DOMRect): void;
  startStack(): void;
  startHost(): void;
  stopHost(): void;
  dismiss(): void;
}

/** Tools, host line, error. */
export class Header implements IView<IHeaderData> {
  constructor(
    actions: IHeaderActions,
    private readonly _trans: TranslationBundle
  ) {
    const menu = iconButton(ellipsesIcon, _trans.__('More actions'), button => actions.menu(button.getBoundingClientRect()));
    menu.setAttribute('aria-haspopup', 'menu');
    this._start = textButton(_trans.__('Start a host'), actions.startHost);
    this._stop = textButton(_trans.__('Stop'), actions.stopHost);
    this._stop.title = _trans.__('Stop the host that this Jupyter server started; staged files are committed first');
    this._host = h(
      'div',
      { class: css('host') },
      h('span', { class: css('hostName') }, _trans.__('Host')),
      this._chip.node,
      this._start,
      this._stop
    );
    this._restart = textButton(_trans.__('Start the local stack'), actions.startStack);
    this._away = h('div', { class: css('away'), role: 'alert' }, this._awayText, this._restart);
    this._problem = h(
      'div',
      { class: css('problem'), role: 'alert' },
      this._problemText,
      iconButton(closeIcon, _trans.__('Dismiss'), actions.dismiss)
    );
    this._profile = textButton('', actions.chooseProfile);
    this._profile.title = _trans.__('Which set of servers and settings JupyterLab uses');
    this.node = h(
      'div',
      { class: css('header') },
      h(
        'div',
        { class: css('title') },
        h('h2', {}, _trans.__('Table topics')),
        iconButton(refreshIcon, _trans.__('Refresh now'), actions.refresh),
        iconButton(dashboardIcon, _trans.__('Open the dashboard'), actions.dashboard),
        iconButton(helpIcon, _trans.__('Open the manual'), actions.manual),
        menu
      ),
      this._profile,
      this._away,
      this._host,
      this._hostDetail,
      this._trouble,
      this._problem,
      this._pending
    );
  }

  readonly node: HTMLElement;

  update({ overview, trouble, pending, problem }: IHeaderData): void {
    setWords(this._trouble, trouble ?? '');
    setShown(this._trouble, trouble !== null);
    setWords(this._problemText, problem ?? '');
    setShown(this._problem, problem !== null);
    setText(this._pending, pending ?? '');
    setShown(this._pending, pending !== null);
    const profile = shownProfile(overview);
    setText(this._profile, this._trans.__('Profile: %1', profile ?? ''));
    setShown(this._profile, profile !== null);
    const servers = overview?.servers;
    const missing = (servers?.missing.length ?? 0) > 0;
    // Without topics, the page below says it; while Jupyter does not respond, nothing else is known.
    const listed = (overview?.topics.length ?? 0) > 0 && ['starting', 'unreachable'].includes(servers?.state ?? '');
    const away = trouble === null && (missing || listed);
    setWords(this._awayText, away ? (servers?.detail ?? '') : '');
    setShown(this._away, away);
    setShown(this._restart, missing);
    setBusy(this._restart, pending !== null);
    // While no topic is enabled, hosts do not matter: enabling one starts it.
    const wanted =
      overview?.servers.state === 'ready' &&
      (overview.host.state !== 'none' || overview.topics.some(row => row.enabled));
    setShown(this._host, wanted);
    setShown(this._hostDetail, wanted && this._hostWords(overview.host, overview) !== '');
    if (wanted) {
      const { host } = overview;
      this._chip.update(this._hostWord(host));
      setText(this._hostDetail, this._hostWords(host, overview));
      setShown(this._start, host.state === 'none' || host.state === 'failed');
      setShown(this._stop, host.state === 'running' || host.state === 'starting');
      setBusy(this._start, pending !== null);
      setBusy(this._stop, pending !== null);
      this._host.title = host.ids.join('\n');
    }
  }

  private _hostWord(host: IHostState): IWord {
    switch (host.state) {
      case 'running':
        return host.ids.length > 1
          ? { text: this._trans.__('%1 running', host.ids.length), tone: 'good' }
          : { text: this._trans.__('running'), tone: 'good' };
      case 'starting':
        return { text: this._trans.__('starting'), tone: 'busy' };
      case 'failed':
        return { text: this._trans.__('failed'), tone: 'bad' };
      case 'none':
        return { text: this._trans.__('none'), tone: 'quiet' };
    }
  }

  private _hostWords(host: IHostState, overview: IOverview): string {
    if (host.state === 'failed' || host.state === 'starting') {
      return host.detail;
    }
    return host.state === 'none' && overview.topics.some(row => row.enabled)
      ? this._trans.__('No host is running, so no topic is being ingested. Start one here, or in a notebook.')
      : '';
  }

  private readonly _chip = new Chip();
  private readonly _profile: HTMLButtonElement;
  private readonly _host: HTMLElement;
  private readonly _start: HTMLButtonElement;
  private readonly _stop: HTMLButtonElement;
  private readonly _hostDetail = h('p', { class: css('hostDetail') });
  private readonly _trouble = h('p', { class: css('trouble'), role: 'alert' });
  private readonly _away: HTMLElement;
  private readonly _awayText = h('span');
  private readonly _restart: HTMLButtonElement;
  private readonly _problem: HTMLElement;
  private readonly _problemText = h('span');
  private readonly _pending = h('p', { class: css('pending') });
}
