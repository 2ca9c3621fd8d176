/** The options in JupyterLab's settings editor; the limits are in schema/plugin.json. */
import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** The current settings. */
export interface IOptions {
  readonly pollSeconds: number;
  readonly warnLagSeconds: number;
  readonly notifications: boolean;
}

/** Defaults if there is no settings registry; schema/plugin.json has the same values. */
export const DEFAULT_OPTIONS: IOptions = { pollSeconds: 2, warnLagSeconds: 60, notifications: true };

/** Read the settings, now and after each change. */
export function followOptions(settings: ISettingRegistry.ISettings, apply: (options: IOptions) => void): void {
  const read = () =>
    apply({
      pollSeconds: settings.get('pollSeconds').composite as number,
      warnLagSeconds: settings.get('warnLagSeconds').composite as number,
      notifications: settings.get('notifications').composite as boolean
    });
  settings.changed.connect(read);
  read();
}
