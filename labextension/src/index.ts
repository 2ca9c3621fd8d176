/** The plugin: every token except the application is optional, so it also runs in Notebook 7. */
import { ILayoutRestorer } from '@jupyterlab/application';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IThemeManager, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';
import { TopicApi } from './api';
import { addCatalog } from './catalog/page';
import { cells } from './cells/plugin';
import { addGestures } from './cells/rows';
import { CommandIDs } from './commandids';
import { addCommands } from './commands';
import { DashboardFrame } from './dashboard';
import { followPageLinks } from './dom';
import { SettingsForm } from './form/settingsform';
import { addResults } from './grid/renderer';
import { addCards } from './launcher';
import type { LazyPage } from './lazypage';
import { lettersPage } from './letters/page';
import { Manual } from './manual';
import { WorkbenchModel } from './model';
import { Notices } from './notices';
import { DEFAULT_OPTIONS, followOptions } from './options';
import { paneButton } from './panes';
import { recordsPage } from './records/page';
import { serversPage } from './servers/page';
import { Sidebar } from './sidebar';
import { LagStatus } from './statusbar';

const PLUGIN_ID = '@tabletopic/lab:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Kafka topics as Iceberg tables: a sidebar, commands, and the lag in the status bar.',
  autoStart: true,
  optional: [
    ICommandPalette,
    ILauncher,
    ILayoutRestorer,
    IRenderMimeRegistry,
    ISettingRegistry,
    IStatusBar,
    IThemeManager,
    ITranslator
  ],
  activate
};

export default [plugin, cells];

function activate(
  app: JupyterFrontEnd,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  restorer: ILayoutRestorer | null,
  rendermime: IRenderMimeRegistry | null,
  registry: ISettingRegistry | null,
  statusBar: IStatusBar | null,
  themes: IThemeManager | null,
  translator: ITranslator | null
): void {
  const trans = (translator ?? nullTranslator).load('tabletopic');
  const model = new WorkbenchModel(new TopicApi(app.serviceManager.serverSettings), trans);
  let options = DEFAULT_OPTIONS;
  const warnLagSeconds = () => options.warnLagSeconds;
  const sidebar = new Sidebar({ model, commands: app.commands, trans, warnLagSeconds });
  const showSidebar = (topic?: string) => {
    if (topic !== undefined) {
      sidebar.reveal(topic);
    }
    app.shell.activateById(sidebar.id);
  };
  const pages = new Pages(app, model, themes, rendermime, trans);
  followPageLinks(page => pages.openManual(...page.split(' ')));

  addCommands(
    app.commands,
    palette,
    model,
    {
      showSidebar,
      openPatterns: () => {
        sidebar.openPatterns();
        showSidebar();
      },
      openDashboard: (topic, pane) => pages.openDashboard(topic, pane),
      openSettings: topic => pages.openSettings(topic),
      openManual: () => pages.openManual(),
      openRecords: topic => pages.openRecords(topic),
      openLetters: topic => pages.openLetters(topic),
      openServers: () => pages.openServers(),
      closeTopics: () => pages.closeTopics(),
      openNotebook: path => app.commands.execute('docmanager:open', { path }),
      insertCell: source => app.commands.execute(CommandIDs.insertCell, { source })
    },
    trans
  );
  addCatalog(app, palette, restorer, model, trans);
  addGestures(sidebar.node, model, app.commands);
  if (rendermime !== null) {
    addResults({ app, rendermime, trans });
  }
  new Notices(model, app.commands, () => options, trans);
  app.shell.add(sidebar, 'left', { rank: 250 });
  restorer?.add(sidebar, sidebar.id);
  if (restorer !== null) {
    pages.restore(restorer);
  }
  if (launcher !== null) {
    addCards(launcher, trans);
  }
  const item = new LagStatus(model, warnLagSeconds, trans, () => showSidebar());
  statusBar?.registerStatusItem(PLUGIN_ID, { item, align: 'left', rank: 100 });
  if (registry !== null) {
    registry
      .load(PLUGIN_ID)
      .then(settings =>
        followOptions(settings, read => {
          options = read;
          model.periodMs = read.pollSeconds * 1000;
          model.changed.emit();
        })
      )
      .catch(error => console.error('Table Topic runs with its default settings.', error));
  }
}

function withoutToolbar<T extends Widget>(content: T): MainAreaWidget<T> {
  const page = new MainAreaWidget({ content });
  page.toolbar.hide();
  return page;
}

/** Pages of the main area: one of each kind per topic, restored after a reload. */
class Pages {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _model: WorkbenchModel,
    private readonly _themes: IThemeManager | null,
    private readonly _rendermime: IRenderMimeRegistry | null,
    private readonly _trans: ReturnType<ITranslator['load']>
  ) {}

  openDashboard(topic: string | null, pane: string | null): void {
    const open = () => {
      const content = new DashboardFrame(topic, pane, this._model.api, this._themes, this._trans);
      if (pane !== null) {
        return withoutToolbar(content);
      }
      const page = new MainAreaWidget({ content });
      page.toolbar.addItem('pane', paneButton(topic, this._app.commands, this._trans));
      return page;
    };
    this._open(this._dashboards, page => page.content.topic === topic && page.content.pane === pane, open);
  }

  openSettings(topic: string): void {
    const open = () => {
      const content = new SettingsForm(topic, this._model, this._trans, () => page.close());
      const page: MainAreaWidget<SettingsForm> = withoutToolbar(content);
      return page;
    };
    this._open(this._settings, page => page.content.topic === topic, open);
  }

  /** At a section, by a word of its heading; one tab for all pages. */
  openManual(page?: string, word?: string): void {
    if (this._manual === null || this._manual.isDisposed) {
      if (this._rendermime === null) {
        return;
      }
      this._manual = new Manual(this._model.api, this._rendermime, this._trans);
      this._app.shell.add(this._manual, 'main', { mode: 'split-right' });
    }
    this._manual.turnTo(page, word);
    this._app.shell.activateById(this._manual.id);
  }

  openRecords(topic: string): void {
    const open = () => withoutToolbar(recordsPage(topic, this._model.api, this._trans));
    this._open(this._records, page => page.content.topic === topic, open);
  }

  openLetters(topic: string): void {
    const open = () => withoutToolbar(lettersPage(topic, this._model, this._trans));
    this._open(this._letters, page => page.content.topic === topic, open);
  }

  openServers(): void {
    this._open(this._servers, () => true, () => withoutToolbar(serversPage(this._model.api, this._app.commands, this._trans)));
  }

  closeTopics(): void {
    for (const tracker of [this._dashboards, this._records, this._letters, this._settings]) {
      tracker.filter(page => page.content.topic !== null).forEach(page => page.dispose());
    }
  }

  restore(restorer: ILayoutRestorer): void {
    void restorer.restore(this._servers, { command: CommandIDs.servers, name: () => '-' });
    void restorer.restore(this._records, {
      command: CommandIDs.records,
      args: page => ({ topic: page.content.topic }),
      name: page => page.content.topic ?? ''
    });
    void restorer.restore(this._letters, {
      command: CommandIDs.letters,
      args: page => ({ topic: page.content.topic }),
      name: page => page.content.topic ?? ''
    });
    void restorer.restore(this._dashboards, {
      command: CommandIDs.dashboard,
      args: page => ({ topic: page.content.topic, pane: page.content.pane }),
      name: page => page.content.id
    });
    void restorer.restore(this._settings, {
      command: CommandIDs.settings,
      args: page => ({ topic: page.content.topic }),
      name: page => page.content.topic
    });
  }

  private _open<T extends MainAreaWidget>(
    tracker: WidgetTracker<T>,
    isIt: (page: T) => boolean,
    make: () => T
  ): void {
    let page = tracker.find(isIt);
    if (page === undefined) {
      page = make();
      page.id = page.content.id || `${tracker.namespace}-${page.title.label}`;
      this._app.shell.add(page, 'main');
      void tracker.add(page);
    }
    this._app.shell.activateById(page.id);
  }

  private _manual: Manual | null = null;
  private readonly _dashboards = new WidgetTracker<MainAreaWidget<DashboardFrame>>({ namespace: 'tabletopic-dashboard' });
  private readonly _records = new WidgetTracker<MainAreaWidget<LazyPage>>({ namespace: 'tabletopic-records' });
  private readonly _letters = new WidgetTracker<MainAreaWidget<LazyPage>>({ namespace: 'tabletopic-letters' });
  private readonly _servers = new WidgetTracker<MainAreaWidget<LazyPage>>({ namespace: 'tabletopic-servers' });
  private readonly _settings = new WidgetTracker<MainAreaWidget<SettingsForm>>({ namespace: 'tabletopic-settings' });
}
