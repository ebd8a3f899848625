import { testExpertWorld } from './expert-worlds.ts';

testExpertWorld(2);
