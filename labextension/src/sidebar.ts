/** The sidebar: header, what to do first, and the list of topics. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { Announcer } from './announcer';
import { CommandIDs } from './commandids';
import { RowDetails } from './details';
import { css, h } from './dom';
import { EmptyState } from './empty';
import { keepingFocus } from './focus';
import { Header } from './header';
import { topicIcon } from './icons';
import { TopicList } from './list';
import { GENERAL } from './model';
import type { WorkbenchModel } from './model';
import { makeMenu, openMenu, paneMenu } from './panes';
import { PatternPanel } from './patterns';
import { QueryList } from './queries';
import { Selection } from './selection';

/** Events sent by the sample button: enough to see files and lag, few enough to wait for. */
export const SAMPLE_EVENTS = 5_000;

/** The sidebar's dependencies. */
export interface ISidebarOptions {
  readonly model: WorkbenchModel;
  readonly commands: CommandRegistry;
  readonly trans: TranslationBundle;
  /** Read at each update: it may change. */
  readonly warnLagSeconds: () => number;
}

/** Requests polls at full speed while visible. */
export class Sidebar extends Widget {
  constructor(private readonly _options: ISidebarOptions) {
    super();
    const { model, commands, trans } = _options;
    this.id = 'tabletopic-sidebar';
    this.addClass('jp-TableTopic');
    this.title.icon = topicIcon;
    this.title.caption = trans.__('Table topics');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Table topics'));
    const run = (id: string) => () => void commands.execute(id);
    this._header = new Header(
      {
        refresh: run(CommandIDs.refresh),
        dashboard: run(CommandIDs.dashboard),
        manual: run(CommandIDs.manual),
        chooseProfile: run(CommandIDs.profile),
        menu: at => this._open(CommandIDs.generalMenu, {}, at),
        startStack: run(CommandIDs.startStack),
        startHost: run(CommandIDs.startHost),
        stopHost: run(CommandIDs.stopHost),
        dismiss: () => model.dismiss(GENERAL)
      },
      trans
    );
    this._empty = new EmptyState(
      {
        startStack: run(CommandIDs.startStack),
        sendSample: run(CommandIDs.sendSample),
        openServers: run(CommandIDs.servers)
      },
      trans
    );
    const selection = new Selection(model, trans);
    this._patterns = new PatternPanel(model, trans);
    this._list = new TopicList(
      {
        toggle: row => void (row.enabled ? model.disable(row.topic) : model.enable(row.topic)),
        menu: (topic, at) => this._open(CommandIDs.topicMenu, { topic }, at),
        dismiss: topic => model.dismiss(topic),
        select: (topic, on, range) => selection.select(topic, on, range),
        details: topic => new RowDetails(topic, model.api, trans)
      },
      selection,
      this._patterns.node,
      trans
    );
    this._announcer = new Announcer(model, trans);
    const insert = (source: string) => void commands.execute(CommandIDs.insertCell, { source });
    this._queries = new QueryList(model.api, insert, trans);
    commands.commandExecuted.connect(this._executed, this);
    const body = h('div', { class: css('body') }, this._empty.node, this._list.node, this._queries.node);
    this.node.append(this._header.node, body, this._announcer.node);
    model.changed.connect(this.update, this);
    this.update();
  }

  /** What has the focus when the sidebar is activated: a topic, unfolded. */
  reveal(topic: string): void {
    this._goal = () => this._list.unfold(topic);
  }

  /** The same: the field for a pattern. */
  openPatterns(): void {
    this._goal = () => this._patterns.open();
  }

  override dispose(): void {
    this._options.model.changed.disconnect(this.update, this);
    this._options.commands.commandExecuted.disconnect(this._executed, this);
    this._announcer.dispose();
    super.dispose();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._options.model.watched = true;
    this.update();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._options.model.watched = false;
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    // A frame later: the command palette moves the focus to the main area as it closes.
    requestAnimationFrame(() => {
      (this._goal?.() ?? this.node.querySelector<HTMLElement>('button'))?.focus();
      this._goal = null;
    });
  }

  protected override onUpdateRequest(): void {
    keepingFocus(this.node, () => this._show());
  }

  private _executed(_: CommandRegistry, { id, result }: CommandRegistry.ICommandExecutedArgs): void {
    if (id === CommandIDs.saveQuery) {
      void result.then(() => this._queries.refresh());
    }
  }

  private _show(): void {
    const { model, warnLagSeconds } = this._options;
    const { overview } = model;
    const pending = model.pending(GENERAL);
    const sample = overview?.sample;
    this._header.update({
      overview,
      trouble: model.trouble ?? (sample?.state === 'failed' ? sample.detail : null),
      pending: pending ?? (sample?.state === 'sending' ? sample.detail : null),
      problem: model.problem(GENERAL)
    });
    this._empty.update({ overview, pending: pending !== null });
    if (overview !== null) {
      this._patterns.update(overview.topics.length);
      this._list.update({
        overview,
        nowMs: model.nowMs,
        staleMs: model.staleMs,
        warnLagSeconds: warnLagSeconds(),
        pending: topic => model.pending(topic),
        problem: topic => model.problem(topic)
      });
    }
  }

  private _open(ids: readonly (string | null)[], args: { topic?: string }, at: DOMRect): void {
    const menu = makeMenu(this._options.commands);
    for (const id of ids) {
      if (id === CommandIDs.pane) {
        const submenu = paneMenu(args.topic ?? null, this._options.commands, this._options.trans);
        menu.addItem({ type: 'submenu', submenu });
      } else {
        menu.addItem(id === null ? { type: 'separator' } : { command: id, args });
      }
    }
    openMenu(menu, at);
  }

  private readonly _header: Header;
  private readonly _empty: EmptyState;
  private readonly _list: TopicList;
  private readonly _queries: QueryList;
  private readonly _patterns: PatternPanel;
  private readonly _announcer: Announcer;
  private _goal: (() => HTMLElement | null) | null = null;
}
