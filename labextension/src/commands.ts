/** The commands: what palette, menus, launcher and buttons run. */
import { InputDialog, Notification } from '@jupyterlab/apputils';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  addBelowIcon,
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
import { dashboardIcon, helpIcon, topicIcon } from './icons';
import { GENERAL } from './model';
import type { WorkbenchModel } from './model';
import { replayLetters } from './replay';
import { SAMPLE_EVENTS } from './sidebar';
import { connectionCell, queryCell } from './snippets';
import { copy, tell } from './telling';

/** Effects of commands on the window. */
export interface IScreens {
  showSidebar(): void;
  openDashboard(topic: string | null): void;
  openSettings(topic: string): void;
  openManual(page?: string, word?: string): void;
  openNotebook(path: string): Promise<unknown>;
  insertCell(source: string): Promise<unknown>;
}

/** A paused topic's host does nothing; without a host, the Jupyter server itself maintains the table. */
const isMaintained = (row: IRow) => row.table !== null && row.run !== 'paused';

interface ITopicCommand {
  readonly id: string;
  /** Label in a topic's menu. */
  readonly label: string;
  /** Label in the palette, which prompts for the topic. */
  readonly longLabel: string;
  readonly caption: string;
  readonly icon: LabIcon;
  /** The topics to which it applies. */
  readonly fits: (row: IRow) => boolean;
  readonly run: (topic: string) => Promise<unknown> | void;
}

const TOPIC_ARGS = {
  type: 'object',
  properties: { topic: { type: 'string', description: 'Name of the Kafka topic; prompts for it if missing' } }
} as const;
const NO_ARGS = { type: 'object', properties: {} } as const;

/** Add all commands, also to the palette. */
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
      caption: trans.__('Ingest a Kafka topic into an Iceberg table'),
      icon: topicIcon,
      fits: row => !row.enabled,
      run: topic => report(model.enable(topic), topic)
    },
    {
      id: CommandIDs.disable,
      label: trans.__('Disable'),
      longLabel: trans.__('Disable a Topic…'),
      caption: trans.__('Stop ingesting the topic; its table stays'),
      icon: stopIcon,
      fits: on,
      run: topic => report(model.disable(topic), topic)
    },
    {
      id: CommandIDs.settings,
      label: trans.__('Settings and Plan…'),
      longLabel: trans.__('Settings and Plan of a Topic…'),
      caption: trans.__('Preview the table, and change the topic’s settings'),
      icon: settingsIcon,
      fits: () => true,
      run: topic => screens.openSettings(topic)
    },
    {
      id: CommandIDs.commit,
      label: trans.__('Commit Now'),
      longLabel: trans.__('Commit a Topic Now…'),
      caption: trans.__('Commit what the topic contains now, without waiting for the interval'),
      icon: saveIcon,
      fits: row => on(row) && row.run !== 'paused',
      run: async topic => {
        if (await report(model.commit(topic), topic)) {
          Notification.info(trans.__('Requested a commit of %1', topic), { autoClose: 3_000 });
        }
      }
    },
    {
      id: CommandIDs.pause,
      label: trans.__('Pause'),
      longLabel: trans.__('Pause a Topic…'),
      caption: trans.__('Pause reading; staged files are committed first'),
      icon: pauseIcon,
      fits: row => on(row) && row.run !== 'paused',
      run: topic => report(model.pause(topic), topic)
    },
    {
      id: CommandIDs.resume,
      label: trans.__('Resume'),
      longLabel: trans.__('Resume a Topic…'),
      caption: trans.__('Resume after a pause, or after fixing the cause of a failure'),
      icon: runIcon,
      fits: row => on(row) && (row.run === 'paused' || row.state === 'failed'),
      run: topic => report(model.resume(topic), topic)
    },
    {
      id: CommandIDs.replay,
      label: trans.__('Replay Dead Letters…'),
      longLabel: trans.__('Replay the Dead Letters of a Topic…'),
      caption: trans.__('Each dead letter becomes a row or stays a dead letter; a preview comes first'),
      icon: undoIcon,
      fits: row => on(row) && (row.dead_letters ?? 0) > 0,
      run: topic => replayLetters(topic, model, trans)
    },
    {
      id: CommandIDs.compact,
      label: trans.__('Compact Small Files'),
      longLabel: trans.__('Compact Small Files of a Topic…'),
      caption: trans.__('Merge the small files of the table, for faster queries; rows do not change'),
      icon: tableRowsIcon,
      fits: isMaintained,
      run: async topic => {
        if (await report(model.compact(topic), topic)) {
          Notification.info(trans.__('Requested a compaction of %1; see its events for the outcome', topic), {
            autoClose: 5_000
          });
        }
      }
    },
    {
      id: CommandIDs.expire,
      label: trans.__('Expire Old Snapshots…'),
      longLabel: trans.__('Expire Old Snapshots of a Topic…'),
      caption: trans.__('Remove snapshots older than the topic’s time travel, and the files only they need'),
      icon: deleteIcon,
      fits: isMaintained,
      run: topic => expireSnapshots(topic, model, trans)
    },
    {
      id: CommandIDs.insertQuery,
      label: trans.__('Insert Query Cell'),
      longLabel: trans.__('Insert a Query Cell…'),
      caption: trans.__('A cell in the active notebook that shows the newest rows of the table'),
      icon: addBelowIcon,
      fits: row => row.table !== null,
      run: topic => screens.insertCell(queryCell(model.row(topic)?.table ?? topic))
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
      caption: trans.__('A notebook cell that loads the topic as a Python object'),
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
    Notification.info(trans.__('No topic qualifies. The sidebar lists the table topics.'));
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
    caption: trans.__('Kafka topics, their tables and their commit lag'),
    icon: topicIcon,
    execute: () => screens.showSidebar()
  });
  add(CommandIDs.refresh, {
    label: trans.__('Refresh Table Topics'),
    caption: trans.__('Update the list now'),
    icon: refreshIcon,
    execute: () => model.refresh()
  });
  add(CommandIDs.manual, {
    label: trans.__('Table Topic Manual'),
    caption: trans.__('How to use, operate and repair table topics'),
    icon: helpIcon,
    execute: () => screens.openManual()
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
    caption: trans.__('Topics and tables stay on disk'),
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
    caption: trans.__('Staged files are committed first'),
    icon: stopIcon,
    isEnabled: () => ['starting', 'running'].includes(model.overview?.host.state ?? ''),
    execute: () => report(model.stopHost())
  });
  add(CommandIDs.sendSample, {
    label: trans.__('Send Sample Events'),
    caption: trans.__('%1 clicks of a fictional shop, to the topic “clicks”', SAMPLE_EVENTS),
    icon: topicIcon,
    isEnabled: () => servers()?.state === 'ready',
    execute: () => report(model.sendSample(SAMPLE_EVENTS))
  });
}
