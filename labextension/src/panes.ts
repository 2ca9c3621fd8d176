/** Panes of the dashboard as tabs of their own: their names, their menus, and the command that opens one. */
import { InputDialog } from '@jupyterlab/apputils';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ToolbarButton } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ElementARIAAttrs } from '@lumino/virtualdom';
import { Menu } from '@lumino/widgets';
import { CommandIDs } from './commandids';
import { css } from './dom';
import { dashboardIcon } from './icons';
import type { WorkbenchModel } from './model';

function captionIn(trans: TranslationBundle): string {
  return trans.__('A part of the dashboard in a tab of its own, such as beside a notebook');
}

/** The names of the panes, by their names in the URL; of a topic, or (null) of the overview. */
export function panesOf(topic: string | null, trans: TranslationBundle): ReadonlyMap<string, string> {
  return new Map(
    topic === null
      ? [
          ['topics', trans.__('Topics')],
          ['lag', trans.__('Commit Lag')]
        ]
      : [
          ['lag', trans.__('Commit Lag')],
          ['rates', trans.__('Rates')],
          ['files', trans.__('Files')],
          ['schemas', trans.__('Schema Versions')],
          ['snapshots', trans.__('Snapshots')],
          ['letters', trans.__('Dead Letters')],
          ['events', trans.__('Hosts and Events')]
        ]
  );
}

/** Lumino gives an item that opens another menu no role. */
class ItemRoles extends Menu.Renderer {
  override createItemARIA(data: Menu.IRenderData): ElementARIAAttrs {
    return data.item.type === 'submenu' ? { ...super.createItemARIA(data), role: 'menuitem' } : super.createItemARIA(data);
  }
}

export function makeMenu(commands: CommandRegistry): Menu {
  return new Menu({ commands, renderer: new ItemRoles() });
}

/** The panes of a topic, or (null) of the overview, to choose from. */
export function paneMenu(topic: string | null, commands: CommandRegistry, trans: TranslationBundle): Menu {
  const menu = makeMenu(commands);
  menu.title.label = trans.__('Open a Pane');
  menu.title.icon = dashboardIcon;
  for (const pane of panesOf(topic, trans).keys()) {
    menu.addItem({ command: CommandIDs.pane, args: { topic, pane } });
  }
  return menu;
}

/** Below an element's place; the focus returns to where it was. */
export function openMenu(menu: Menu, at: DOMRect): void {
  const back = document.activeElement;
  menu.addClass(css('menu'));
  menu.aboutToClose.connect(() => {
    if (back instanceof HTMLElement && back.isConnected) {
      back.focus(); // Lumino leaves the focus on the page
    }
  });
  menu.open(at.left, at.bottom);
  menu.activateNextItem();
}

/** A button of the dashboard's tab. */
export function paneButton(topic: string | null, commands: CommandRegistry, trans: TranslationBundle): ToolbarButton {
  const button: ToolbarButton = new ToolbarButton({
    icon: dashboardIcon,
    label: trans.__('Open a Pane'),
    tooltip: captionIn(trans),
    onClick: () => openMenu(paneMenu(topic, commands, trans), button.node.getBoundingClientRect())
  });
  return button;
}

/** Add the command; it asks for what its arguments leave open. */
export function addPanes(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  model: WorkbenchModel,
  open: (topic: string | null, pane: string) => void,
  trans: TranslationBundle
): void {
  const topicOf = (args: { topic?: unknown }) => (typeof args.topic === 'string' ? args.topic : null);
  commands.addCommand(CommandIDs.pane, {
    label: args => panesOf(topicOf(args), trans).get(String(args.pane)) ?? trans.__('Open a Pane of the Dashboard…'),
    caption: captionIn(trans),
    icon: args => (args.pane === undefined ? dashboardIcon : undefined),
    describedBy: {
      args: {
        type: 'object',
        properties: {
          topic: { type: ['string', 'null'], description: 'Name of the Kafka topic; null: all topics' },
          pane: { type: 'string', description: 'Name of the pane, such as lag' }
        }
      }
    },
    execute: async args => {
      const topic = args.topic === undefined ? await askForTopic(model, trans) : topicOf(args);
      const panes = topic === undefined ? new Map<string, string>() : panesOf(topic, trans);
      if (typeof args.pane === 'string' && panes.has(args.pane)) {
        open(topic ?? null, args.pane);
      } else if (topic !== undefined) {
        const label = await ask(trans.__('Pane'), [...panes.values()], trans);
        const pane = [...panes].find(([, each]) => each === label);
        if (pane !== undefined) {
          open(topic, pane[0]);
        }
      }
    }
  });
  palette?.addItem({ command: CommandIDs.pane, category: trans.__('Table Topic') });
}

/** Null is the overview; undefined, if nothing was chosen. */
async function askForTopic(model: WorkbenchModel, trans: TranslationBundle): Promise<string | null | undefined> {
  if (model.overview === null) {
    await model.refresh();
  }
  const all = trans.__('All topics');
  const topics = (model.overview?.topics ?? []).filter(row => row.enabled || row.table !== null).map(row => row.topic);
  const answer = await ask(trans.__('Topic'), [all, ...topics], trans);
  return answer === all ? null : (answer ?? undefined);
}

async function ask(label: string, items: string[], trans: TranslationBundle): Promise<string | null> {
  const title = trans.__('Open a Pane of the Dashboard');
  const answer = await InputDialog.getItem({ title, label, items, editable: false });
  return answer.button.accept ? answer.value : null;
}
