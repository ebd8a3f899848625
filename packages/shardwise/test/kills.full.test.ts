import { runsThatAreDisturbed } from './kills.ts';

runsThatAreDisturbed({ onOneHost: 5, onTwoHosts: 3, timeoutMs: 120_000 });
