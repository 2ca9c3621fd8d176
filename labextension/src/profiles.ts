/** Profiles: which set of settings JupyterLab uses, in words, and the command that chooses another. */
import { Dialog, InputDialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { settingsIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { reasonOf } from './api';
import type { IOverview } from './api';
import { CommandIDs } from './commandids';
import type { WorkbenchModel } from './model';

/** The profile in use; null while there is only the usual one, which needs no word. */
export function shownProfile(overview: IOverview | null): string | null {
  return overview !== null && overview.profiles.length > 1 ? overview.profile : null;
}

/** JupyterLab saves its layout three quarters of a second after a change. */
const LAYOUT_MS = 1_500;

/** Use a profile, after a question. The page reloads, so that nothing of the previous profile is left in it. */
export async function chooseProfile(
  name: string,
  model: WorkbenchModel,
  closeTopics: () => void,
  trans: TranslationBundle
): Promise<void> {
  const now = model.overview?.profile ?? '';
  if (name === now) {
    return;
  }
  const body = trans.__(
    'This page reloads, and its tabs about topics of %1 close. Hosts of %1 continue, and so do notebooks, in their profile.',
    now
  );
  const buttons = [Dialog.cancelButton(), Dialog.okButton({ label: trans.__('Use %1', name) })];
  const answer = await showDialog({ title: trans.__('Use the profile %1?', name), body, buttons });
  if (!answer.button.accept) {
    return;
  }
  try {
    await model.api.chooseProfile(name);
  } catch (error) {
    Notification.error(reasonOf(error), { autoClose: false });
    return;
  }
  closeTopics();
  window.setTimeout(() => window.location.reload(), LAYOUT_MS);
}

/** Add the command that chooses one, also to the palette. */
export function addProfiles(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  model: WorkbenchModel,
  closeTopics: () => void,
  trans: TranslationBundle
): void {
  commands.addCommand(CommandIDs.profile, {
    label: trans.__('Choose a Profile…'),
    caption: trans.__('Which set of servers and settings JupyterLab uses'),
    icon: settingsIcon,
    isEnabled: () => shownProfile(model.overview) !== null,
    describedBy: {
      args: { type: 'object', properties: { profile: { type: 'string', description: 'Name; prompts for it if missing' } } }
    },
    execute: async args => {
      let name = typeof args.profile === 'string' ? args.profile : null;
      if (name === null) {
        const items = [...(model.overview?.profiles ?? [])];
        const current = items.indexOf(model.overview?.profile ?? '');
        const title = trans.__('Choose a Profile');
        const answer = await InputDialog.getItem({ title, label: trans.__('Profile'), items, current, editable: false });
        name = answer.button.accept ? answer.value : null;
      }
      if (name !== null) {
        await chooseProfile(name, model, closeTopics, trans);
      }
    }
  });
  palette?.addItem({ command: CommandIDs.profile, category: trans.__('Table Topic') });
}
