/** The commands: what palette, menus, launcher and buttons run. */
import { InputDialog, Notification } from '@jupyterlab/apputils';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  launchIcon,
  refreshIcon,
  runIcon,
  settingsIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { reasonOf } from './api';
import { CommandIDs } from './commandids';
import { dashboardIcon, helpIcon, topicIcon } from './icons';
import { GENERAL } from './model';
import type { WorkbenchModel } from './model';
import { addPanes } from './panes';
import { addProfiles } from './profiles';
import { SAMPLE_EVENTS } from './sidebar';
import { tell } from './telling';
import { topicCommands } from './topiccommands';
import type { ITopicCommand } from './topiccommands';

/** Effects of commands on the window. */
export interface IScreens {
  /** With a topic: unfolded there. */
  showSidebar(topic?: string): void;
  openPatterns(): void;
  openDashboard(topic: string | null, pane: string | null): void;
  openSettings(topic: string): void;
  openManual(page?: string, word?: string): void;
  openRecords(topic: string): void;
  openLetters(topic: string): void;
  openServers(): void;
  /** Close the pages about single topics. */
  closeTopics(): void;
  openNotebook(path: string): Promise<unknown>;
  insertCell(source: string): Promise<unknown>;
}

const TOPIC_ARGS = {
  type: 'object',
  properties: { topic: { type: 'string', description: 'Name of the Kafka topic; prompts for it if missing' } }
} as const;
const DASHBOARD_ARGS = {
  type: 'object',
  properties: {
    topic: { type: ['string', 'null'], description: 'Name of the Kafka topic; without it, all topics' },
    pane: { type: ['string', 'null'], description: 'Name of a pane, such as lag; without it, all of them' }
  }
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
  addPanes(commands, palette, model, (topic, pane) => screens.openDashboard(topic, pane), trans);
  addGeneral(commands, palette, model, screens, trans);
  addProfiles(commands, palette, model, () => screens.closeTopics(), trans);
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

function textOf(argument: unknown): string | null {
  return typeof argument === 'string' ? argument : null;
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
    describedBy: { args: DASHBOARD_ARGS },
    execute: args => screens.openDashboard(textOf(args.topic), textOf(args.pane))
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
    execute: args => screens.showSidebar(typeof args.topic === 'string' ? args.topic : undefined)
  });
  add(CommandIDs.enablePattern, {
    label: trans.__('Enable by Pattern…'),
    caption: trans.__('Several topics with one plan, and those that come later'),
    icon: topicIcon,
    isEnabled: () => servers()?.state === 'ready',
    execute: () => screens.openPatterns()
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
  add(CommandIDs.servers, {
    label: trans.__('Servers'),
    caption: trans.__('Kafka, schema registry and catalogs: how they are reached, tried before it is saved'),
    icon: settingsIcon,
    execute: () => screens.openServers()
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
