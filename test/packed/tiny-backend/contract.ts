import { backendSuite, runSuite } from '@shardwise/testing';
import { tinyBackend } from './tiny-backend.ts';

const suite = backendSuite({ name: 'tiny', create: async () => tinyBackend() });

const passes = await runSuite(suite, ({ groups, name }, outcome) => {
  console.log(outcome.status, [suite.name, ...groups, name].join(' > '));
  if (outcome.status === 'failed') console.error(outcome.error);
});
if (!passes) process.exitCode = 1;
