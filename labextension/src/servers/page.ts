/** The tab with the servers that the settings name. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { settingsIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { TopicApi } from '../api';
import { CommandIDs } from '../commandids';
import { LazyPage } from '../lazypage';

export function serversPage(api: TopicApi, commands: CommandRegistry, trans: TranslationBundle): LazyPage {
  const title = {
    label: trans.__('Servers'),
    caption: trans.__('Kafka, schema registry and catalogs in the settings file'),
    icon: settingsIcon
  };
  const load = async () => {
    const [{ ServersView }, { ServersApi }] = await Promise.all([
      import(/* webpackChunkName: "servers" */ './view'),
      import(/* webpackChunkName: "servers" */ './protocol')
    ]);
    const use = (profile: string) => void commands.execute(CommandIDs.profile, { profile });
    return new ServersView(new ServersApi(api), use, trans);
  };
  return new LazyPage(title, load);
}
