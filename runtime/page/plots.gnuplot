# SPDX-License-Identifier: MIT
# What all plots of the page share. page.css gives these colours their values for light and dark screens; marks and
# dashes tell the series apart without colours.
set encoding utf8
set terminal svg size 460,320 font 'sans-serif,14' noenhanced
ink = '#555555'
set style line 1 lc rgb '#2a78d6' lw 2 pt 7  ps 0.55 dt 1
set style line 2 lc rgb '#d9541e' lw 2 pt 5  ps 0.5  dt 2
set style line 3 lc rgb '#1b8a5a' lw 2 pt 9  ps 0.65 dt 4
set style line 4 lc rgb '#7a4bd0' lw 2 pt 13 ps 0.7  dt 5
set style line 5 lc rgb '#a67c00' lw 2 pt 6  ps 0.6  dt 1
set style line 6 lc rgb '#c03a86' lw 2 pt 4  ps 0.55 dt 2
set border 3 lc rgb ink
set grid ytics lc rgb '#dddddd' lw 1 dt 1
set tics nomirror scale 0.5 textcolor rgb ink
set key top left outside horizontal samplen 3 width -1
set format y '%g'
set bmargin 3
set xlabel offset 0,0.5
set style fill transparent solid 0.25 border
