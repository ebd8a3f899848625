// The entry point of members that train together over a coordinator, for Node and pages.
export { join, type JoinRunOptions } from './join.ts';
export type { RunMember } from './member/run-member.ts';
