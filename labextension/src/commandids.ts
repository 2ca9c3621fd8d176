/** Names of the commands, and the menus made from them. */
export namespace CommandIDs {
  export const show = 'tabletopic:show';
  export const refresh = 'tabletopic:refresh';
  export const dashboard = 'tabletopic:dashboard';
  export const pane = 'tabletopic:dashboard-pane';
  export const tables = 'tabletopic:tables';
  export const servers = 'tabletopic:servers';
  export const profile = 'tabletopic:profile';
  export const manual = 'tabletopic:manual';
  export const records = 'tabletopic:records';
  export const letters = 'tabletopic:letters';
  export const quickstart = 'tabletopic:quickstart';
  export const startStack = 'tabletopic:start-stack';
  export const stopStack = 'tabletopic:stop-stack';
  export const startHost = 'tabletopic:start-host';
  export const stopHost = 'tabletopic:stop-host';
  export const sendSample = 'tabletopic:send-sample';
  export const enable = 'tabletopic:enable';
  export const enablePattern = 'tabletopic:enable-pattern';
  export const disable = 'tabletopic:disable';
  export const settings = 'tabletopic:settings';
  export const commit = 'tabletopic:commit';
  export const pause = 'tabletopic:pause';
  export const resume = 'tabletopic:resume';
  export const replay = 'tabletopic:replay';
  export const compact = 'tabletopic:compact';
  export const expire = 'tabletopic:expire';
  export const insertQuery = 'tabletopic:insert-query';
  export const insertCell = 'tabletopic:insert-cell';
  export const saveQuery = 'tabletopic:save-query';
  export const formatSql = 'tabletopic:format-sql';
  export const copyQuery = 'tabletopic:copy-query';
  export const copyConnection = 'tabletopic:copy-connection';

  /** A topic's menu; null is a separator. */
  export const topicMenu: readonly (string | null)[] = [
    settings,
    commit,
    pause,
    resume,
    letters,
    replay,
    null,
    compact,
    expire,
    null,
    records,
    tables,
    dashboard,
    pane,
    insertQuery,
    copyQuery,
    copyConnection
  ];

  /** The sidebar's menu. */
  export const generalMenu: readonly (string | null)[] = [
    quickstart,
    tables,
    dashboard,
    pane,
    null,
    enablePattern,
    sendSample,
    startHost,
    stopHost,
    null,
    startStack,
    stopStack,
    servers,
    profile,
    null,
    manual
  ];
}
