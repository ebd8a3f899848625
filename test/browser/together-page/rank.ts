import { init } from 'shardwise/browser';
import { type MemberTask, trainMember } from './train-member.ts';

const context = await init();
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the page of this test has posted it
context.send(await trainMember(context.data as MemberTask));
await context.close();
