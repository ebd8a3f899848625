import { runsThatAreDisturbed } from './kills.ts';

runsThatAreDisturbed({ onOneHost: 2, onTwoHosts: 1, timeoutMs: 120_000 });
