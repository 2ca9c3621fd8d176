/** The extension's icons; they use JupyterLab's colours, so they follow the theme. */
import { LabIcon } from '@jupyterlab/ui-components';

/** A stream flowing into a table. */
export const topicIcon = new LabIcon({
  name: 'tabletopic:topic',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" stroke="#616161" stroke-width="2" stroke-linejoin="round">
    <path fill="none" d="M10 5h11v14H10z" />
    <path fill="none" d="M10 10h11M10 14.5h11M15.5 10v9" stroke-width="1.5" />
    <path fill="none" d="M1.5 7.5H6M1.5 12H8M1.5 16.5H6" stroke-linecap="round" />
  </g>
</svg>`
});

/** A question mark in a circle. */
export const helpIcon = new LabIcon({
  name: 'tabletopic:help',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" stroke="#616161" stroke-width="2" stroke-linecap="round" stroke-linejoin="round">
    <path fill="none" d="M12 3a9 9 0 1 1 0 18a9 9 0 0 1 0-18z" />
    <path fill="none" d="M9.5 9.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1 1-1.1 1.8M12 16.8v.1" />
  </g>
</svg>`
});

/** A rising and falling line. */
export const dashboardIcon = new LabIcon({
  name: 'tabletopic:dashboard',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" stroke="#616161" stroke-width="2" stroke-linecap="round" stroke-linejoin="round">
    <path fill="none" d="M3 4v16h18" />
    <path fill="none" d="M6.5 15l4-6 4 3.5L20 6" />
  </g>
</svg>`
});
