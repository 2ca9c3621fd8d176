/** The tab with the records of a topic. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { searchIcon } from '@jupyterlab/ui-components';
import type { TopicApi } from '../api';
import { LazyPage } from '../lazypage';

export function recordsPage(topic: string, api: TopicApi, trans: TranslationBundle): LazyPage {
  const title = {
    label: trans.__('Records of %1', topic),
    caption: trans.__('Records of %1 in Kafka, and what became of each', topic),
    icon: searchIcon
  };
  const load = async () => {
    const [{ RecordsView }, { searchOf }] = await Promise.all([
      import(/* webpackChunkName: "records" */ './view'),
      import(/* webpackChunkName: "records" */ './protocol')
    ]);
    return new RecordsView(topic, searchOf(api, topic), trans);
  };
  return new LazyPage(title, load, topic);
}
