import type { RunState } from '../run-state/run-state.ts';

/** The state of a page's run as plain data, for JSON or for the page's own charts. */
export type PageReport = Omit<RunState, 'pending' | 'processBytes'>;
