/** By hand: a topic's row is dragged into a cell as its table's name; a double click inserts a query cell. */
import type { CommandRegistry } from '@lumino/commands';
import { CommandIDs } from '../commandids';
import type { WorkbenchModel } from '../model';
import { sqlName } from '../snippets';

export function addGestures(sidebar: HTMLElement, model: WorkbenchModel, commands: CommandRegistry): void {
  const nameAt = (event: Event) => {
    const target = event.target as Element;
    return target.closest?.('.jp-TableTopic-name') ? target.closest<HTMLElement>('[data-topic]') : null;
  };
  const tableOf = (row: HTMLElement) => model.row(row.dataset.topic ?? '')?.table ?? null;
  // Only while the pointer is on the name: text below it can still be selected.
  sidebar.addEventListener('pointerover', event => {
    const row = nameAt(event);
    if (row !== null) {
      (event.target as HTMLElement).draggable = tableOf(row) !== null;
    }
  });
  sidebar.addEventListener('dragstart', event => {
    const row = nameAt(event);
    const table = row === null ? null : tableOf(row);
    if (table !== null) {
      event.dataTransfer?.setData('text/plain', sqlName(table));
    }
  });
  sidebar.addEventListener('dblclick', event => {
    const row = nameAt(event);
    if (row !== null && tableOf(row) !== null) {
      void commands.execute(CommandIDs.insertQuery, { topic: row.dataset.topic ?? '' });
    }
  });
}
