/** The tab with the tables of the catalogs and the subjects of the registry, and its command. */
import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { tableRowsIcon } from '@jupyterlab/ui-components';
import { CommandIDs } from '../commandids';
import { LazyPage } from '../lazypage';
import type { WorkbenchModel } from '../model';
import type { CatalogView } from './view';

const ID = 'tabletopic-tables';

/** Add the command that opens the tab; with a topic, at its table. */
export function addCatalog(
  app: JupyterFrontEnd,
  palette: ICommandPalette | null,
  restorer: ILayoutRestorer | null,
  model: WorkbenchModel,
  trans: TranslationBundle
): void {
  const { commands, shell } = app;
  const tracker = new WidgetTracker<MainAreaWidget<LazyPage>>({ namespace: ID });
  let loading: Promise<CatalogView> | null = null;
  const load = async () => {
    const [{ CatalogView }, { CatalogApi }] = await Promise.all([
      import(/* webpackChunkName: "catalog" */ './view'),
      import(/* webpackChunkName: "catalog" */ './protocol')
    ]);
    const insert = (source: string) => void commands.execute(CommandIDs.insertCell, { source });
    const showTopic = (topic: string) => void commands.execute(CommandIDs.show, { topic });
    return new CatalogView({ api: new CatalogApi(model.api), trans, insert, showTopic, topics: () => topicsOf(model) });
  };
  const tableOf = (topic: unknown) => (typeof topic === 'string' ? (model.row(topic)?.table ?? null) : null);
  const label = trans.__('Tables and Subjects');
  commands.addCommand(CommandIDs.tables, {
    label: args => (args.topic === undefined ? label : trans.__('Look into the Table')),
    caption: trans.__('Tables of all catalogs and subjects of the registry, by their metadata'),
    icon: tableRowsIcon,
    isVisible: args => args.topic === undefined || tableOf(args.topic) !== null,
    describedBy: {
      args: { type: 'object', properties: { topic: { type: 'string', description: 'Topic whose table to show' } } }
    },
    execute: async args => {
      let page = tracker.currentWidget;
      if (page === null || page.isDisposed) {
        loading = null;
        const title = { label, caption: label, icon: tableRowsIcon };
        page = new MainAreaWidget({ content: new LazyPage(title, () => (loading ??= load())) });
        page.id = ID;
        page.toolbar.hide();
        shell.add(page, 'main');
        void tracker.add(page);
      }
      shell.activateById(page.id);
      const table = tableOf(args.topic);
      if (table !== null) {
        (await (loading ??= load())).openTable(table);
      }
    }
  });
  palette?.addItem({ command: CommandIDs.tables, category: trans.__('Table Topic') });
  void restorer?.restore(tracker, { command: CommandIDs.tables, name: () => ID });
}

/** The topics by the names of their tables, and of those with their dead letters. */
function topicsOf(model: WorkbenchModel): ReadonlyMap<string, string> {
  const tables = (model.overview?.topics ?? []).flatMap(({ topic, table }) =>
    table === null ? [] : [[table, topic] as const, [`${table}__dead_letters`, topic] as const]
  );
  return new Map(tables);
}
