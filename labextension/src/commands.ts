/** The commands: what palette, menus, launcher and buttons run. */
import { InputDialog, Notification } from '@jupyterlab/apputils';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  copyIcon,
  deleteIcon,
  launchIcon,
  pauseIcon,
  refreshIcon,
  runIcon,
  saveIcon,
  settingsIcon,
  stopIcon,
  tableRowsIcon,
  undoIcon
} from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { IRow } from './api';
import { reasonOf } from './api';
import { CommandIDs } from './commandids';
import { expireSnapshots } from './expire';
import { dashboardIcon, topicIcon } from './icons';
import { GENERAL } from './model';
import type { WorkbenchModel } from './model';
import { replayLetters } from './replay';
import { SAMPLE_EVENTS } from './sidebar';
import { connectionCell, queryCell } from './snippets';
import { copy, tell } from './telling';

/** What commands do to the window. */
export interface IScreens {
  showSidebar(): void;
  openDashboard(topic: string | null): void;
  openSettings(topic: string): void;
  openNotebook(path: string): Promise<unknown>;
}

interface ITopicCommand {
  readonly id: string;
  /** In the menu of a topic. */
  readonly label: string;
  /** In the palette, where the topic is asked for. */
  readonly longLabel: string;
  readonly caption: string;
  readonly icon: LabIcon;
  /** Which topics it is for. */
  readonly fits: (row: IRow) => boolean;
  readonly run: (topic: string) => Promise<unknown> | void;
}

const TOPIC_ARGS = {
  type: 'object',
  properties: { topic: { type: 'string', description: 'Name of the Kafka topic; asked for where it is not given' } }
} as const;
const NO_ARGS = { type: 'object', properties: {} } as const;

/** Add all commands, and put them into the palette. */
export function addCommands(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  model: WorkbenchModel,
  screens: IScreens,
  trans: TranslationBundle
): void {
  const category = trans.__('Table Topic');
  for (const command of topicCommands(model, screens, trans)) {
    addTopicCommand(commands, command, model, trans);
    palette?.addItem({ command: command.id, category });
  }
  addDashboard(commands, screens, trans);
  palette?.addItem({ command: CommandIDs.dashboard, category });
  addGeneral(commands, palette, model, screens, trans);
}

function topicCommands(model: WorkbenchModel, screens: IScreens, trans: TranslationBundle): ITopicCommand[] {
  const on = (row: IRow) => row.enabled;
  const report = (run: Promise<boolean>, topic: string) => tell(run, () => model.problem(topic));
  return [
    {
      id: CommandIDs.enable,
      label: trans.__('Enable'),
      longLabel: trans.__('Enable a Topic…'),
      caption: trans.__('Keep an Iceberg table of a Kafka topic'),
      icon: topicIcon,
      fits: row => !row.enabled,
      run: topic => report(model.enable(topic), topic)
    },
    {
      id: CommandIDs.disable,
      label: trans.__('Disable'),
      longLabel: trans.__('Disable a Topic…'),
      caption: trans.__('Stop following the topic; its table stays'),
      icon: stopIcon,
      fits: on,
      run: topic => report(model.disable(topic), topic)
    },
    {
      id: CommandIDs.settings,
      label: trans.__('Settings and Plan…'),
      longLabel: trans.__('Settings and Plan of a Topic…'),
      caption: trans.__('See what enabling would do, and change how the topic runs'),
      icon: settingsIcon,
      fits: () => true,
      run: topic => screens.openSettings(topic)
    },
    {
      id: CommandIDs.commit,
      label: trans.__('Commit Now'),
      longLabel: trans.__('Commit a Topic Now…'),
      caption: trans.__('Commit what is in the topic now, before the interval is over'),
      icon: saveIcon,
      fits: row => on(row) && row.run !== 'paused',
      run: async topic => {
        if (await report(model.commit(topic), topic)) {
          Notification.info(trans.__('%1 was asked to commit now', topic), { autoClose: 3_000 });
        }
      }
    },
    {
      id: CommandIDs.pause,
      label: trans.__('Pause'),
      longLabel: trans.__('Pause a Topic…'),
      caption: trans.__('Stop reading for a while; what is staged is committed first'),
      icon: pauseIcon,
      fits: row => on(row) && row.run !== 'paused',
      run: topic => report(model.pause(topic), topic)
    },
    {
      id: CommandIDs.resume,
      label: trans.__('Resume'),
      longLabel: trans.__('Resume a Topic…'),
      caption: trans.__('Go on after a pause, or after a failure whose cause is gone'),
      icon: runIcon,
      fits: row => on(row) && (row.run === 'paused' || row.state === 'failed'),
      run: topic => report(model.resume(topic), topic)
    },
    {
      id: CommandIDs.replay,
      label: trans.__('Try Dead Letters Again…'),
      longLabel: trans.__('Try Dead Letters of a Topic Again…'),
      caption: trans.__('Each letter becomes a row, or stays a letter; what would happen is shown first'),
      icon: undoIcon,
      fits: row => on(row) && (row.dead_letters ?? 0) > 0,
      run: topic => replayLetters(topic, model, trans)
    },
    {
      id: CommandIDs.compact,
      label: trans.__('Compact Small Files'),
      longLabel: trans.__('Compact Small Files of a Topic…'),
      caption: trans.__('Put the small files of the table together, which makes queries faster; rows stay as they are'),
      icon: tableRowsIcon,
      fits: row => on(row) && row.table !== null && row.run !== 'paused',
      run: async topic => {
        if (await report(model.compact(topic), topic)) {
          Notification.info(trans.__('%1 was asked to compact its files; its events say what came of it', topic), {
            autoClose: 5_000
          });
        }
      }
    },
    {
      id: CommandIDs.expire,
      label: trans.__('Expire Old Snapshots…'),
      longLabel: trans.__('Expire Old Snapshots of a Topic…'),
      caption: trans.__('Let go of snapshots that are older than the topic\'s time travel, and of files that only they need'),
      icon: deleteIcon,
      fits: row => on(row) && row.table !== null && row.run !== 'paused',
      run: topic => expireSnapshots(topic, model, trans)
    },
    {
      id: CommandIDs.copyQuery,
      label: trans.__('Copy Query Cell'),
      longLabel: trans.__('Copy a Query Cell…'),
      caption: trans.__('A notebook cell that shows the newest rows of the table'),
      icon: copyIcon,
      fits: row => row.table !== null,
      run: topic => copy(queryCell(model.row(topic)?.table ?? topic), trans)
    },
    {
      id: CommandIDs.copyConnection,
      label: trans.__('Copy Connection Code'),
      longLabel: trans.__('Copy Connection Code…'),
      caption: trans.__('A notebook cell that gives you the topic as a Python object'),
      icon: copyIcon,
      fits: () => true,
      run: topic => copy(connectionCell(topic), trans)
    }
  ];
}

function addTopicCommand(
  commands: CommandRegistry,
  command: ITopicCommand,
  model: WorkbenchModel,
  trans: TranslationBundle
): void {
  const rowOf = (args: ReadonlyPartialJSONObject) =>
    typeof args.topic === 'string' ? model.row(args.topic) : undefined;
  const fits = (args: ReadonlyPartialJSONObject) => {
    const row = rowOf(args);
    return row === undefined || command.fits(row);
  };
  commands.addCommand(command.id, {
    label: args => (args.topic === undefined ? command.longLabel : command.label),
    caption: command.caption,
    icon: command.icon,
    isEnabled: args => args.topic === undefined || fits(args),
    isVisible: fits,
    describedBy: { args: TOPIC_ARGS },
    execute: async args => {
      const topic = typeof args.topic === 'string' ? args.topic : await askForTopic(command, model, trans);
      if (topic !== null) {
        await command.run(topic);
      }
    }
  });
}

async function askForTopic(
  command: ITopicCommand,
  model: WorkbenchModel,
  trans: TranslationBundle
): Promise<string | null> {
  if (model.overview === null) {
    await model.refresh();
  }
  const items = (model.overview?.topics ?? []).filter(command.fits).map(row => row.topic);
  if (items.length === 0) {
    Notification.info(trans.__('There is no topic to do this with. The table topics in the sidebar say what is there.'));
    return null;
  }
  const answer = await InputDialog.getItem({ title: command.longLabel, label: trans.__('Topic'), items, editable: false });
  return answer.button.accept ? answer.value : null;
}

function addDashboard(commands: CommandRegistry, screens: IScreens, trans: TranslationBundle): void {
  commands.addCommand(CommandIDs.dashboard, {
    label: args =>
      args.card === true
        ? trans.__('Dashboard')
        : args.topic === undefined
          ? trans.__('Open the Table Topic Dashboard')
          : trans.__('Open Dashboard'),
    caption: trans.__('Commit lag, throughput, files and schema versions, live'),
    icon: dashboardIcon,
    describedBy: { args: TOPIC_ARGS },
    execute: args => screens.openDashboard(typeof args.topic === 'string' ? args.topic : null)
  });
}

function addGeneral(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  model: WorkbenchModel,
  screens: IScreens,
  trans: TranslationBundle
): void {
  const servers = () => model.overview?.servers;
  const isToStart = () => servers()?.state === 'none' || (servers()?.missing.length ?? 0) > 0;
  const hasStack = () => servers()?.own === false && !['none', 'stopping'].includes(servers()?.state ?? 'none');
  const add = (id: string, options: Omit<CommandRegistry.ICommandOptions, 'describedBy'>) => {
    commands.addCommand(id, { ...options, describedBy: { args: NO_ARGS } });
    palette?.addItem({ command: id, category: trans.__('Table Topic') });
  };
  const report = (run: Promise<boolean>) => tell(run, () => model.problem(GENERAL));
  add(CommandIDs.show, {
    label: trans.__('Show Table Topics'),
    caption: trans.__('Kafka topics, their tables, and how far these are behind'),
    icon: topicIcon,
    execute: () => screens.showSidebar()
  });
  add(CommandIDs.refresh, {
    label: trans.__('Refresh Table Topics'),
    caption: trans.__('Ask now how the topics do'),
    icon: refreshIcon,
    execute: () => model.refresh()
  });
  add(CommandIDs.quickstart, {
    label: args => (args.card === true ? trans.__('Table Topic quickstart') : trans.__('Open the Quickstart Notebook')),
    caption: trans.__('From an empty broker to a query in four steps'),
    icon: topicIcon,
    execute: async () => {
      try {
        const { path } = await model.api.quickstart();
        return await screens.openNotebook(path);
      } catch (error) {
        Notification.error(reasonOf(error), { autoClose: false });
        return undefined;
      }
    }
  });
  add(CommandIDs.startStack, {
    label: trans.__('Start the Local Stack'),
    caption: trans.__('Kafka, a schema registry and a catalog on this machine'),
    icon: launchIcon,
    isEnabled: isToStart,
    isVisible: isToStart,
    execute: () => report(model.startStack())
  });
  add(CommandIDs.stopStack, {
    label: trans.__('Stop the Local Stack'),
    caption: trans.__('Topics and tables stay on the disk'),
    icon: stopIcon,
    isEnabled: hasStack,
    isVisible: hasStack,
    execute: () => report(model.stopStack())
  });
  add(CommandIDs.startHost, {
    label: trans.__('Start a Host'),
    caption: trans.__('A process beside Jupyter that runs the table topics'),
    icon: runIcon,
    isEnabled: () => servers()?.state === 'ready',
    execute: () => report(model.startHost())
  });
  add(CommandIDs.stopHost, {
    label: trans.__('Stop the Host'),
    caption: trans.__('What is staged is committed first'),
    icon: stopIcon,
    isEnabled: () => ['starting', 'running'].includes(model.overview?.host.state ?? ''),
    execute: () => report(model.stopHost())
  });
  add(CommandIDs.sendSample, {
    label: trans.__('Send Sample Events'),
    caption: trans.__('%1 clicks of an invented shop, to the topic “clicks”', SAMPLE_EVENTS),
    icon: topicIcon,
    isEnabled: () => servers()?.state === 'ready',
    execute: () => report(model.sendSample(SAMPLE_EVENTS))
  });
}
