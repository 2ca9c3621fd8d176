/** The launcher's cards. */
import type { ILauncher } from '@jupyterlab/launcher';
import type { TranslationBundle } from '@jupyterlab/translation';
import { CommandIDs } from './commandids';

/** The quickstart first: new users look for it. */
export function addCards(launcher: ILauncher, trans: TranslationBundle): void {
  const category = trans.__('Table Topic');
  launcher.add({ command: CommandIDs.quickstart, category, rank: 1, args: { card: true } });
  launcher.add({ command: CommandIDs.dashboard, category, rank: 2, args: { card: true } });
}
