import type { RunState } from '../run-state/run-state.ts';

/** What has come of a run of a page, as an object: plain data, for JSON or a chart of the page's own. */
export type PageReport = Omit<RunState, 'pending' | 'processBytes'>;
