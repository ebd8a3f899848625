// The entry point of members that train together over a coordinator, for Node and pages.
export { join, type JoinRunOptions } from './join.ts';
export { withDirectLinks } from './direct/serve-worker.ts';
export type { RunMember } from './member/run-member.ts';
