/** What can be done with one topic: each is a command, an item of the topic's menu and of the palette. */
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  addBelowIcon,
  copyIcon,
  deleteIcon,
  pauseIcon,
  runIcon,
  saveIcon,
  searchIcon,
  settingsIcon,
  stopIcon,
  tableRowsIcon,
  undoIcon
} from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { IRow } from './api';
import { CommandIDs } from './commandids';
import type { IScreens } from './commands';
import { expireSnapshots } from './expire';
import { topicIcon } from './icons';
import type { WorkbenchModel } from './model';
import { replayLetters } from './replay';
import { connectionCell, queryCell } from './snippets';
import { copy, tell } from './telling';

/** A paused topic's host does nothing; without a host, the Jupyter server itself maintains the table. */
const isMaintained = (row: IRow) => row.table !== null && row.run !== 'paused';

/** A command for one topic. */
export interface ITopicCommand {
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

/** All of them, in no order: menus have their own. */
export function topicCommands(model: WorkbenchModel, screens: IScreens, trans: TranslationBundle): ITopicCommand[] {
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
      id: CommandIDs.letters,
      label: trans.__('Look at Dead Letters'),
      longLabel: trans.__('Look at the Dead Letters of a Topic…'),
      caption: trans.__('Why records could not become rows; replay, drop or download those that you select'),
      icon: undoIcon,
      fits: row => (row.dead_letters ?? 0) > 0,
      run: topic => screens.openLetters(topic)
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
      id: CommandIDs.records,
      label: trans.__('Look at Records'),
      longLabel: trans.__('Look at the Records of a Topic…'),
      caption: trans.__('Find records in Kafka, and what became of each: row, dead letter, or why neither'),
      icon: searchIcon,
      fits: () => true,
      run: topic => screens.openRecords(topic)
    },
    {
      id: CommandIDs.insertQuery,
      label: trans.__('Insert Query Cell'),
      longLabel: trans.__('Insert a Query Cell…'),
      caption: trans.__('A cell in the active notebook that shows rows of the table, the newest first'),
      icon: addBelowIcon,
      fits: row => row.table !== null,
      run: async topic => screens.insertCell(await queryCell(model.row(topic)?.table ?? topic, model.api))
    },
    {
      id: CommandIDs.copyQuery,
      label: trans.__('Copy Query Cell'),
      longLabel: trans.__('Copy a Query Cell…'),
      caption: trans.__('A notebook cell that shows rows of the table, the newest first'),
      icon: copyIcon,
      fits: row => row.table !== null,
      run: async topic => copy(await queryCell(model.row(topic)?.table ?? topic, model.api), trans)
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
